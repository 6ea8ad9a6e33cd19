"""Requests that store messages."""
