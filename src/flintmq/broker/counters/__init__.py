"""What is counted for metrics alone: messages by type, and how long requests take."""
