"""What a broker knows, a table for each kind of thing."""
