"""The accept loop, work in parts, and a stop that ends within its limit."""
