"""Looking a directory over without changing it."""
