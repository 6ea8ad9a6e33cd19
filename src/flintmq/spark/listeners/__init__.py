"""Listeners of an app on Spark: the run, the group's member, the micro-batches it plans."""
