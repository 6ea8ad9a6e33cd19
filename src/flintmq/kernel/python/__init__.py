"""Every loop of the kernel in plain Python: the specification of the compiled ones."""
