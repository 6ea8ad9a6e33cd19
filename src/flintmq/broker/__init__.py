"""Requests in, outcomes out, over a store."""
