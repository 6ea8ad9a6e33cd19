"""The durable log: commit log, consume queues, key index, recovery, self-check.

    message_log ─┬─► log ────► files       append: records, one write for each turn
                 ├─► queues ─► files       append: a unit for each record; read: a pull
                 ├─► index ──► files       append: keys; read: `record_lookup`
                 ├─► recovery              opening: the log is read, queues and index made to agree
                 └─► retention, mending    old files; a disk that refused a write

`files` is the only folder that writes.  `readonly` and `check` read a directory that a broker may
be using; `batch_topics` is for topics with ``queue.type=BatchCQ``, `raw_log` for
masters and slaves, which copy the log byte by byte, and `move_aside` for slaves that begin again.
"""
