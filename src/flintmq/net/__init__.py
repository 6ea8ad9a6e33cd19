"""Sockets: the asyncio and the blocking driver of `protocol`, and the accept loop."""
