"""Every client-side decision, without I/O: machines and conversations."""
