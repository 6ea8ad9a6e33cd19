"""Sockets: the asyncio and the blocking driver of `protocol` and `core`, and the accept loop.

    servers    accept ► a channel and a session for each connection
    channels   bytes ► frames ► session;  calls ► bytes     on the event loop
    blocking   the same on one thread, without a loop
    drive      a conversation of `core` over either;  `side_by_side`: many of them at once

The other modules are what all three need: addresses, clocks, TLS, limits, and when to connect
again.
"""
