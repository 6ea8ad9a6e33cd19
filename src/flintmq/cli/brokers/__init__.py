"""Several broker processes of one cluster under one parent, for `flintmq serve --brokers N`."""
