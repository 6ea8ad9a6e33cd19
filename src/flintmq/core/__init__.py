"""Every client-side decision, without I/O: machines and conversations.

    producer    message ► draft ► queue ► call ► receipt, or the next broker
    group       members, routes ► rebalance ► our queues ► start offset
    consumer    our queues ► pulls ► process queue ► listener's result ► settled ► offset
    pull        the same for consumers that ask for messages: lite pull, scheduled pull
    pop         the broker hands out ► receipt ► acknowledged, hidden for longer, or come again
    reading     a span of a queue ► pages of records, for tools and for Spark
    replication a slave's log against its master's; which slaves have stored what
    admin       topics, groups, lag, dead letters: questions to the whole cluster

`routes` knows which broker has a queue, `conversation` and `ask` are how a question is put to a
server, `bad_record_rule` decides on records that cannot be decoded, `promotion` switches a master
and its slave.
"""
