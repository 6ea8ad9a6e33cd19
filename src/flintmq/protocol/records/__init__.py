"""Messages as brokers store them and send them out."""
