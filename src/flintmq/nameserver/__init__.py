"""Which brokers are alive, and which of them has which topic.

    broker ── register, heartbeat ──► processors ─► routes, replicas ◄── expiry, by `server`
    client ── route of a topic ─────► processors ─► routes
    admin ─── settings ─────────────► processors ─► settings

`state` is all that a processor may use, `config` is namesrv.conf, and `server` has the sockets and
the clock.
"""
