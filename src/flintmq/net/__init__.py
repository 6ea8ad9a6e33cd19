"""Sockets: the asyncio and the blocking driver of `protocol` and `core`, and the accept loop.

    servers    accept ► a channel and a session for each connection
    channels   bytes ► frames ► session;  calls ► bytes     on the event loop
    blocking   the same on one thread, without a loop
    http2      the same for gRPC: frames ► calls ► methods
    drive      a conversation of `core` over either;  `side_by_side`: many of them at once

The other modules are what all of them need: addresses, clocks, TLS, limits, and when to connect
again.
"""
