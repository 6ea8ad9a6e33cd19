"""Requests of consumers and of clients that join and leave."""
