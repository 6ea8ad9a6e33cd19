"""`flintmq dlq`."""
