"""What users may add around requests, sends and listener calls."""
