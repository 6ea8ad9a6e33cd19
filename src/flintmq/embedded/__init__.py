"""Name servers and brokers inside the caller's process.

    EmbeddedBroker (broker) ─► servers    the real ones, on sockets, on a thread of their own
        ├─► clock      moved by `advance`, for servers and clients
        ├─► faults     requests and answers that get lost
        ├─► inside     messages, lag and delays as the broker sees them
        ├─► clients    producers and consumers that go by that clock
        └─► embedded_users, account_files     access control: users as values, and on disk

`pytest_plugin` makes a fixture of it.
"""
