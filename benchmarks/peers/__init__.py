"""Comparisons with the real systems, both sides in one run.  They need Java and Maven."""
