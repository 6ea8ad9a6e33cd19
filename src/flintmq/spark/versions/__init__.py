"""What differs between versions of pyspark, so that the rest is written for the newest."""
