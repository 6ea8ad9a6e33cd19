"""The console: pages in a browser for people who run a cluster.

    guard      who may come in: host check, login, sessions, CSRF tokens, headers, limits
    watching   what is asked of the cluster, once for all viewers, and the samples that are kept
    showing    templates, numbers and times for people, paging, charts, server-sent events
    pages      one module for each subject: overview, topics, groups, messages, dead letters, …
    app        the ASGI application; `serving` runs it

It works against any cluster through `flintmq.aio.Admin`.  It reads only, unless it was told that it
may change something, and listens on loopback unless told otherwise.

Invariant: nothing that a peer wrote reaches a browser unescaped, and no secret reaches one at all.
"""
