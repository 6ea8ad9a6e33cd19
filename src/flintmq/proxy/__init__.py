"""RocketMQ's gRPC service, for the official clients of 5.x, in front of brokers.

    client ─► net/servers ─► net/http2 ─► grpc_handlers ─► calls ─► client/engine ─► brokers
              plain or TLS   gRPC         who may          │
                                                           └─► tables  clients, halves, receipts

It is a proxy in the sense of RocketMQ's cluster mode: whatever a client asks becomes requests of
the remoting protocol to brokers, ours or others', so one implementation serves `flintmq proxy`,
`flintmq serve --grpc` and `EmbeddedBroker(grpc=True)`.

`wire` is the form of the service: message classes, codes, statuses.  `tables` is what the proxy
remembers, `calls` serves the calls; `caller_rights` says who may make them, `grpc_handlers` brings
them there, `server` starts and stops all of it.

It needs protobuf: ``flintmq[grpc]``.  Nothing here is imported without it, but for
`server_settings`.
"""
