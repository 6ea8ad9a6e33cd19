"""The metrics of a broker: RocketMQ 5's names, labels and units, and our own under flintmq_."""
