"""Bringing a directory into order at its start."""
