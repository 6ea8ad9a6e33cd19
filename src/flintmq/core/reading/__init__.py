"""Conversations that read: offsets, a span of a queue, a queue as it grows."""
