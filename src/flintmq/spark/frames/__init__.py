"""Topics as plain frames, without a data source: for pyspark 3.5, and for loops of batches."""
