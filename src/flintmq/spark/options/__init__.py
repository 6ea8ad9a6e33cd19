"""The options of source and sink: their tables, values and errors."""
