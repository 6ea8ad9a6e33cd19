"""When each error comes and what to do then, in the words of docs/reference/errors.md.

Names, fields and ``retriable`` come from `flintmq.errors` (`reference_pages`); a test holds that
no class is missing here and none is too much.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Advice(NamedTuple):
    when: str
    do: str


SETTING: Final = "Correct it: the text names what is allowed."

ERRORS: Final = {
    "FlintError": Advice(
        "The base class of all others; never raised itself.",
        "Catch it to catch all that FlintMQ raises on purpose. Your listeners, hooks and callbacks "
        "raise what they like; any other exception that comes from FlintMQ itself is a bug: report "
        "it.",
    ),
    "LocalProtocolError": Advice(
        "A value that RocketMQ's protocol cannot carry, or a bug of ours.",
        "Check the value; report it if nothing is wrong with it.",
    ),
    "RemoteProtocolError": Advice(
        "The peer sent bytes that are not RocketMQ's protocol.",
        "Check that the port is a broker's. The connection is closed; clients open another.",
    ),
    "FrameTooLarge": Advice(
        "A frame is larger than allowed; often the port speaks another protocol, or TLS.",
        "Check the address and `tls`.",
    ),
    "MalformedFrame": Advice(
        "The bytes of a connection are not frames.", "Check the address and `tls`."
    ),
    "MalformedHeader": Advice(
        "A header, or the field that is named, cannot be read.",
        "Report it with the version of the peer.",
    ),
    "MalformedBody": Advice(
        "The body of an answer or of a configuration file cannot be read.",
        "For a file: correct it. From a peer: report it with its version.",
    ),
    "MalformedRecord": Advice(
        "A message record cannot be read.",
        "Run `flintmq store check` on the broker's directory.",
    ),
    "LogMismatch": Advice(
        "What a master sends does not continue the log of its slave: the logs have diverged, or "
        "the stream was damaged.",
        "See [what a slave does about it](../replication.md#when-the-logs-differ).",
    ),
    "BodyTooLarge": Advice(
        "A body is larger than the producer allows, or a compressed one larger than the consumer "
        "allows.",
        "Send less, or raise `message_bytes_max` and the broker's `maxMessageSize`.",
    ),
    "MissingExtra": Advice(
        "An optional package is not installed: Spark, Java, a compression.",
        "Run the `pip install` of its text.",
    ),
    "InvalidExpression": Advice(
        "A tag or SQL92 expression cannot be compiled; the text shows where.",
        "Correct the expression.",
    ),
    "ExpressionTooLarge": Advice(
        "A tag or SQL92 expression has more words, tags or characters than a broker reads.",
        "Name fewer values, or subscribe to less with several groups.",
    ),
    "InvalidName": Advice(
        "A topic, group or property has a name that RocketMQ refuses.", "Choose another name."
    ),
    "InvalidSetting": Advice(
        "A setting, option or argument cannot be used; raised before anything is started.", SETTING
    ),
    "InvalidMessage": Advice(
        "A `Message` was given a wrong type, an empty body, a delay out of range or too many "
        "properties; or `json()` or `text` of a received message finds something else in its body. "
        "It is a `ValueError` too.",
        "Correct the field that `setting` names. For a received message: `raise DeadLetter`, as it "
        "will not get better.",
    ),
    "InvalidResult": Advice(
        "A listener returned a value that is not a result; its messages are redelivered, and the "
        "error is logged.",
        "Return `None`, `Ack`, `Retry`, `DeadLetter`, or a list with one of these per message.",
    ),
    "CircuitOpen": Advice(
        "With `failures_max`, a listener on Spark raised in so many calls in a row; "
        "`run.await_termination()` raises it. Messages that were not sent back are redelivered "
        "from the group's offset.",
        "Look at `error`, mend what the listener needs, and start the run again.",
    ),
    "Unreachable": Advice(
        "Nobody answered: refused, reset, or timed out. The request may have been served.",
        "Retry if doing it twice does no harm. Check that the advertised address of the broker can "
        "be reached from here.",
    ),
    "Overloaded": Advice(
        "One of our own limits is reached; `knob` names it.", "Wait, or raise the limit."
    ),
    "ResultTooLarge": Advice(
        "A table of `flintmq.arrow` would take more rows or bytes than `max_rows` or `max_bytes` "
        "allow.",
        "Read fewer columns or a shorter span, raise the limit, or use `read_topic_batches`.",
    ),
    "BrokerRefused": Advice(
        "A broker or name server answered no; `code` is RocketMQ's, `remark` its words.",
        "Do what the remark says; the same request is usually refused again.",
    ),
    "NoRoute": Advice(
        "No name server knows a broker that has the topic.",
        "Create the topic, or check that the broker is registered: `flintmq topic list`.",
    ),
    "SendFailed": Advice(
        "Every attempt to send a message failed. It may be stored nevertheless.",
        "Send it again if consumers can handle duplicates. `reason` and `brokers` say what failed, "
        "and where.",
    ),
    "PartlySent": Advice(
        "Of several requests of one `send_batch` the first ones were stored; `stored` says how "
        "many messages.",
        "Send the messages from `stored` on again.",
    ),
    "NoReply": Advice(
        "A request message was sent, and no reply came in time. Somebody may have acted on it.",
        "Ask again if the work may be done twice; check that a consumer replies.",
    ),
    "UndecodableRecord": Advice(
        "A queue stops at a message that cannot be decoded, because `on_bad_record` says so or a "
        "package to decompress it is missing.",
        "Continue at `offset` + 1 (`seek`, `pull`, `flintmq group reset`), install the package, or "
        "set `on_bad_record` to `skip`.",
    ),
    "MessagesLost": Advice(
        "Messages to be read are deleted: by retention, or the topic was created again.",
        "Accept it with `failOnDataLoss=false`, or start at another offset. Keep messages longer "
        "(`fileReservedTime`) or read earlier.",
    ),
    "GroupConflict": Advice(
        "A consumer subscribes to something else than the present members of its group.",
        'Give every member the same subscriptions, or another group; `on_conflict="warn"` joins '
        "nevertheless.",
    ),
    "WrongState": Advice(
        "A call before the start, after the stop, or in a process that was forked.",
        "Start it, or create a new one; after a fork create clients in the child.",
    ),
    "ReceiptExpired": Advice(
        "A popped message is acknowledged, or hidden for longer, after its invisible time.",
        "Nothing: it comes again. Receive with a longer `invisible_ms`, or call `change_invisible` "
        "in time.",
    ),
    "CorruptRecord": Advice(
        "Bytes on disk are not what was written.",
        "Run `flintmq store check`; restore the directory from a backup.",
    ),
    "DiskFailed": Advice(
        "A write failed: the disk is full, read-only or broken. `is_full` is true for the first.",
        "Free space; the broker continues by itself.",
    ),
    "StoreLocked": Advice(
        "Another broker has the directory open.", "Stop it, or use another directory."
    ),
    "StoreRefused": Advice(
        "A store directory that cannot be served, such as one with queues in RocksDB; the text "
        "names the file.",
        "Do what the text says.",
    ),
}
