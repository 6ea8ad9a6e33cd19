"""Consume queues: units, files, reading, and what a new record adds to them."""
