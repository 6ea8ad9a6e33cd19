"""What became of the messages of a run: rows of outcomes, sinks for them, failures, the breaker."""
