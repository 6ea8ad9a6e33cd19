"""Producers, plain and transactional, on threads and asyncio, and message trace."""
