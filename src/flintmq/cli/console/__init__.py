"""`flintmq console`."""
