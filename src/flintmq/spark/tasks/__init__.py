"""What runs listeners inside tasks of Spark: the app as bytes, calls, settling, popped messages."""
