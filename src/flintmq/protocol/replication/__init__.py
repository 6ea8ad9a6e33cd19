"""The bytes between a master and its slaves."""
