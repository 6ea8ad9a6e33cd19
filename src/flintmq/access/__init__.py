"""Who may do what: accounts, rules and the decision about a request; no sockets, files or clocks.

    plain_file (ACL 1.0) ─┐
                          ├─► rules ─► decide ◄── needs ◄── request
    auth_accounts (2.0) ──┘              │
                                      control ─► passes, or AccessRefusal

`rules` are the words, `sources` the addresses in them; `decide` decides about one need, `needs` is
the table of what every request needs; `control` puts both in front of a server.
"""
