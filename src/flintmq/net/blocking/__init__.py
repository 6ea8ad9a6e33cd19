"""Connections without a loop, for one thread."""
