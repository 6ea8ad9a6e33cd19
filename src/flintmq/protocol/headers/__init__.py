"""The typed header of every request and answer, one module per subject."""
