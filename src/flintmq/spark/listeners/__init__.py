"""Listeners of an app on Spark: the group's member, its tasks, their outcomes."""
