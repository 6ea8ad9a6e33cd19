"""Requests in, outcomes out, over a store.

    client_session ► engine ─► processor_table ─┬─► send      messages are stored
       frames         turns                     ├─► consume   pulls, offsets, heartbeats
                        │                       └─► admin     topics, groups, figures, resets
                        │                                │
                        │     state ◄────────────────────┘    all that a processor may use
                        │       ├─► scheduled    delay levels, timers, half messages, revival
                        │       ├─► pops         messages in flight, held pops, ordered queues
                        │       └─► tables       topics, groups, offsets, clients, held pulls, locks
                        ▼
                      store     one write for each turn

`requests` is what a request and its outcome are, `limits` keeps one peer from using up what is
there for all, `config` is broker.conf.  `counters` are for metrics, which `monitoring` makes of
them.  `replication` carries the log from masters to slaves.  It, `server`, `listening`,
`announcing`, `log_syncs`, `table_copy` and `table_saver` are all that has sockets, threads or a
clock; `upkeep` says when regular work is due, and scrubs the log.
"""
