"""Pop consumption: the broker hands messages out and hides them until they are acknowledged."""
