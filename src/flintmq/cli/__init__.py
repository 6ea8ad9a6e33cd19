"""The `flintmq` command.

    main ─┬─► serve, broker, namesrv                servers
          ├─► send, tail, message, topic, group     questions to a cluster: `client.admin`
          ├─► dlq, lake, topic report               jobs on Spark
          ├─► run, run_spark                        an app's listeners, on threads or on Spark
          ├─► store                                 a store directory, without a broker
          └─► demo                                  all of it, watched and checked

`shared` has what several commands need: how to reach a cluster, output, times, server processes,
Spark sessions.  `topic`, `group`, `dlq` and `demo` are folders because they have several commands
or parts.
"""
