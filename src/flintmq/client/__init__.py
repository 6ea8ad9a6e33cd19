"""Producer, consumers and admin: one asyncio engine, and the same classes for threads.

    your program ─► producer ─┐
                    push ─────┼─► engine ─► net     connections, routes, heartbeats
                    pull ─────┤     ▲
                    admin ────┘     │ requests of brokers: rebalance, reset, transaction checks
       listener ◄── push            │
                     └─► offsets ───┘               committed at the broker, or in a file

`core` decides, this package carries it out: each folder drives the machines of the `core` folder
with the same subject.  `hooks` is what a user may add around requests, sends and listener calls.  A
class whose module begins with `threaded_` is the blocking face of an asyncio class.
"""
