"""Records from where they are, a cluster or a store directory, one page after the other."""
