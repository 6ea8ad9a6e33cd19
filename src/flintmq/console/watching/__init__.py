"""What the console asks of a cluster: once for all viewers, and in samples over an hour."""
