"""The push consumer: it pulls by itself and calls listeners."""
