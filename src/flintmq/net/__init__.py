"""Sockets: the asyncio and the blocking driver of `protocol` and `core`, and the accept loop.

To read in this order: `channel` (one end of a connection), `commands` (a session that answers
command by command), `aio` (channels by address), `server` (the accept loop), `blocking_channel`
and `blocking` (the same without a loop), `drive` (conversations over either).
"""
