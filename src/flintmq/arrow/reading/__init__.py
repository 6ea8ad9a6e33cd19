"""Reads records from a cluster or from a store directory, page by page."""
