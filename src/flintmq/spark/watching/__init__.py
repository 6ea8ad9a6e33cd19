"""What Spark tells of streaming queries, and who counts it."""
