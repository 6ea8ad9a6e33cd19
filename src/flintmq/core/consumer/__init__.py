"""The machine of a push consumer: queues, pulls, settling, offsets, locks."""
