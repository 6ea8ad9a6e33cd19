"""The form of RocketMQ's gRPC service: message classes, codes, statuses and how they are read."""
