"""`flintmq tls`: certificates for tests and small set-ups."""
