"""Decisions of masters and slaves, without I/O."""
