"""Producer, consumers and admin: one asyncio engine, and the same classes for threads.

    your program ─► producer ─┐
                    push ─────┼─► engine ─► net     connections, routes, heartbeats
                    pull ─────┤     ▲
                    simple ───┤     │
                    admin ────┘     │ requests of brokers: rebalance, reset, transaction checks
       listener ◄── push            │
                     └─► offsets ───┘               committed at the broker, or in a file

`core` decides, this package carries it out: each folder drives the machines of the `core` folder
with the same subject.  `joining` is what consumers wait for before and while they join: name
servers, and the routes of their topics.  `popping` is what simple consumers, push consumers and
the proxy ask of a broker that hands messages out.  `hooks` is what a user may add around requests,
sends and listener calls; `idempotence` wraps listeners so that repeats do not reach them.  A class
whose module begins with `threaded_` is the blocking face of an asyncio class.
"""
