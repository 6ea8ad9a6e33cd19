"""Settings of a broker, and the file they come from."""
