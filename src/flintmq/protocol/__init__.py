"""Bytes ↔ values: frames, commands, headers, bodies, records and the sans-IO connection.

    bytes ► frame ► wire ────────► command ► fields ► headers     a header by its request code
              │     header_json,      │
              │     header_binary     ├─────► fastjson ► bodies     what is JSON
              │                       └─────► records               what is messages
              └───► typed_request                                   a known request in one pass

`connection` matches answers to calls.  `codes` has the numbers, `body_limits` how long a body may
be, `signature` signs a command, `compression` packs the body of a message, `replication` has the
frames between masters and slaves, `pop` the handles and texts of pop consumption, `http2` the
frames of gRPC.
"""
