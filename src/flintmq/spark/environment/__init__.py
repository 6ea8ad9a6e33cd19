"""What Spark needs on this machine: pyspark, pyarrow and a Java."""
