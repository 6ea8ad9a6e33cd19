"""gRPC served on asyncio: connections of HTTP/2, the calls on them, and the server of both."""
