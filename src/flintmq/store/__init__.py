"""The durable log: segments, commit log, consume queues, index, recovery, self-check."""
