"""The commit log."""
