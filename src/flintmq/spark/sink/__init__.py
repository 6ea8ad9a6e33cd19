"""Rows of a frame as messages of a topic."""
