"""`flintmq cluster`, and what `flintmq broker` asks running brokers."""
