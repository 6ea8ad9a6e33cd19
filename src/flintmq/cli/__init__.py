"""The `flintmq` command.

    main ─┬─► serve, broker, namesrv                servers
          ├─► send, tail, message, topic, group     questions to a cluster: `client.admin`
          ├─► cluster, broker status, dlq
          ├─► traffic: consume, perf, JSON lines    many messages
          ├─► lake, large reports, bulk-replay      jobs on Spark
          ├─► run, run_spark                        an app's listeners, on threads or on Spark
          ├─► acl, tls                              accounts, rights and certificates
          ├─► console                               pages in a browser
          ├─► store                                 a store directory, without a broker
          └─► demo                                  all of it, watched and checked

`shared` has what several commands need: how to reach a cluster, output, times, server processes,
Spark sessions.  `messages` reads and prints many messages for several commands.  `acl`, `cluster`,
`topic`, `group`, `dlq`, `console`, `tls`, `traffic` and `demo` are folders: they have several
commands or parts.  `brokers` runs several broker processes for `serve`.
"""
