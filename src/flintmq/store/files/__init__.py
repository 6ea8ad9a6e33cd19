"""Files and directories of a store, and the one place that writes to them."""
