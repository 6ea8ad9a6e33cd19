"""The machines of consumers that ask for messages."""
