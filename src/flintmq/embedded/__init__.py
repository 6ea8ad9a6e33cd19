"""Name servers and brokers inside the caller's process."""
