"""Consumers that ask for messages: pull, lite pull and scheduled pull."""
