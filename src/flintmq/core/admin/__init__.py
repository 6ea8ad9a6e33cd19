"""Conversations of an administrator: topics, groups, offsets, messages, dead letters."""
