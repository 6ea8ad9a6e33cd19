"""Pages of records as Arrow columns, without a Python object for each row."""
