"""Idempotence that lasts: stores for the keys of consumed messages, and listeners around them."""
