"""The `flintmq` command."""
