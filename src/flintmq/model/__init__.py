"""The nouns: message, queue, topic, route, group.  Frozen values, standard library only.

    message ── properties, sys_flag, message_id, host      what is sent and received
    topic ── queue ── route                                where it is
    group                                                  who consumes it

`java_hash` is how RocketMQ hashes tags and keys; `bad_record` is a record nobody can decode.
"""
