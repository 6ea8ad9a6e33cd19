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
        "Never raised itself; every other error is one of it.",
        "Catch it to catch all that FlintMQ raises on purpose. Anything else is a bug.",
    ),
    "LocalProtocolError": Advice(
        "A value that RocketMQ's protocol cannot carry, or a bug of ours.",
        "Look at the value; report it if there is nothing wrong with it.",
    ),
    "RemoteProtocolError": Advice(
        "The other side sent something that is no RocketMQ.",
        "See whether the port is a broker's. The connection is closed; clients open another.",
    ),
    "FrameTooLarge": Advice(
        "A frame was announced over the cap; often the port speaks another protocol, or TLS.",
        "See whether address and `tls` are right.",
    ),
    "MalformedFrame": Advice(
        "The bytes of a connection are no frames.", "See whether address and `tls` are right."
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
    "BodyTooLarge": Advice(
        "A body is larger than the producer, or a packed one larger than the consumer, allows.",
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
    "InvalidResult": Advice(
        "A listener returned something that means nothing; its messages come again, and the error "
        "is logged.",
        "Return `None`, `Ack`, `Retry`, `DeadLetter`, or a list with one of these per message.",
    ),
    "Unreachable": Advice(
        "Nobody answered: refused, reset, or timed out. The request may have been served.",
        "Try again, if doing it twice does no harm. See whether the address is the one the broker "
        "advertises.",
    ),
    "Overloaded": Advice(
        "One of our own limits is reached; `knob` names it.", "Wait, or raise the limit."
    ),
    "BrokerRefused": Advice(
        "A broker or name server answered no; `code` is RocketMQ's, `remark` its words.",
        "Do what the remark says; the same request is mostly refused again.",
    ),
    "NoRoute": Advice(
        "No name server knows a broker that has the topic.",
        "Make the topic, or see whether the broker is registered: `flintmq topic list`.",
    ),
    "SendFailed": Advice(
        "Every try to send a message failed. It may be stored all the same, once or more often.",
        "Send it again if consumers are ready for repeats. `reason` and `brokers` say what and "
        "where.",
    ),
    "PartlySent": Advice(
        "Of several requests of one `send_batch` the first ones were stored; `stored` says how "
        "many messages.",
        "Send the messages from `stored` on again.",
    ),
    "NoReply": Advice(
        "A request message was sent, and no reply came in time. Somebody may have acted on it.",
        "Ask again, if the work may be done twice; see whether a consumer replies.",
    ),
    "UndecodableRecord": Advice(
        "A queue stops at a message that cannot be decoded, because `on_bad_record` says so or a "
        "package to unpack it is missing.",
        "Go on at `offset` + 1 (`seek`, `pull`, `flintmq group reset`), install the package, or "
        "set `on_bad_record` to `skip`.",
    ),
    "MessagesLost": Advice(
        "Messages that were to be read are gone: deleted by retention, or the topic was made anew.",
        "Accept it with `failOnDataLoss=false`, or start elsewhere. Keep messages longer "
        "(`fileReservedTime`) or read sooner.",
    ),
    "GroupConflict": Advice(
        "A consumer would subscribe to something else than the members its group has.",
        'Give every member the same subscriptions, or another group; `on_conflict="warn"` joins '
        "all the same.",
    ),
    "WrongState": Advice(
        "A call before the start, after the stop, or in a process that was forked.",
        "Start it, or make a new one; after a fork make clients in the child.",
    ),
    "CorruptRecord": Advice(
        "Bytes on disk are not what was written.",
        "Run `flintmq store check`; bring back the directory from a copy.",
    ),
    "DiskFailed": Advice(
        "The disk refused: full, read-only, broken. `is_full` tells the first apart.",
        "Make room; a broker goes on by itself when there is some.",
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
