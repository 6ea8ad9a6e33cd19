"""Every exception flintmq raises on purpose.

Each says whose fault it is, whether to try again (``retriable``), and what went wrong (fields).
It survives pickling, as Spark needs it: ``args`` are what its class is called with.

    FlintError
    ├── LocalProtocolError       we broke the protocol: a bug in flintmq, or a value it cannot carry
    ├── RemoteProtocolError      the peer broke the protocol: close the connection
    │   ├── FrameTooLarge        it announced a frame over the cap
    │   ├── MalformedFrame       the bytes are no frame
    │   ├── MalformedHeader      a header that cannot be read, or a field of it
    │   ├── MalformedBody        a body that cannot be read
    │   └── MalformedRecord      a message record that cannot be read
    │       └── LogMismatch      bytes of a master that do not continue a slave's log
    ├── BodyTooLarge             a body unpacks past the cap
    ├── MissingExtra             an optional package is needed: the message says which to install
    ├── InvalidExpression        a filter expression that cannot be compiled
    │   └── ExpressionTooLarge   one with more words or tags than a broker reads
    ├── InvalidName              a topic, group or property name RocketMQ would refuse
    ├── InvalidSetting           a setting of ours that cannot be used: an address, a file, a number
    │   └── InvalidMessage       a field of a message that is wrong, or a body of another kind
    ├── InvalidResult            a listener returned something that means nothing
    ├── CircuitOpen              a listener raised in so many calls in a row that its run ended
    ├── Unreachable              no reply: refused, reset, or timed out
    ├── Overloaded               one of our own limits is reached: wait, or raise it
    │   └── ResultTooLarge       more rows than may be kept in memory: waiting does not help
    ├── BrokerRefused            a reply, and it says no
    ├── NoRoute                  no name server knows a broker that has the topic
    ├── SendFailed               every try to send a message failed
    ├── PartlySent               only the first messages of a call were stored
    ├── NoReply                  a request message was sent, and nobody replied in time
    ├── UndecodableRecord        a queue stops at a record that cannot be decoded
    ├── MessagesLost             messages that were to be read are gone from their queue
    ├── GroupConflict            the members of a consumer group do not agree
    ├── WrongState               a client that is not started, is stopped, or is of another process
    │   └── ReceiptExpired       a popped message that is visible to others again
    ├── CorruptRecord            bytes on disk that cannot be what we wrote
    ├── DiskFailed               the disk refused: full, read-only, broken
    ├── StoreLocked              another process has the store
    └── StoreRefused             a store directory we cannot serve, and why
"""

from __future__ import annotations

import errno
from typing import ClassVar

from flintmq.printable import printable


class FlintError(Exception):
    """Base of the tree.  Never raised itself."""

    retriable: ClassVar[bool] = False
    says: ClassVar[str] = ""
    """Its sentence, with fields in braces; without one, the fields."""

    def __str__(self) -> str:
        return self.says.format_map(vars(self)) or ": ".join(map(str, self.args))


class LocalProtocolError(FlintError):
    """We were asked to send something the protocol cannot carry."""


class RemoteProtocolError(FlintError):
    """The peer did something the protocol forbids.  Close the connection."""


class FrameTooLarge(RemoteProtocolError):
    """A frame was announced that is larger than we accept; nothing was allocated for it."""

    says = "a frame of {size_bytes} bytes is over the limit of {limit_bytes}"

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(size_bytes, limit_bytes)
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes


class MalformedFrame(RemoteProtocolError):
    """The bytes of a connection stopped being frames."""


class MalformedHeader(RemoteProtocolError):
    """A header cannot be read, or ``field`` of it: a wire name, empty for the header as a whole."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field, self.reason = field, reason

    def __str__(self) -> str:
        return f"header field {self.field}: {self.reason}" if self.field else self.reason


class MalformedBody(RemoteProtocolError):
    """A body that is not what its code says it is."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what, self.reason = what, reason


class MalformedRecord(RemoteProtocolError):
    """A message record that cannot be read.  ``position`` counts from the start of the bytes."""

    says = "record at byte {position}: {reason}"

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position, self.reason = position, reason


class LogMismatch(MalformedRecord):
    """Bytes of a master that do not continue a slave's log; the position is one of the log."""


class BodyTooLarge(FlintError):
    """A body is, or unpacks to, more than we accept."""

    says = "{reason}: over the limit of {limit_bytes} bytes"

    def __init__(self, limit_bytes: int, reason: str) -> None:
        super().__init__(limit_bytes, reason)
        self.limit_bytes, self.reason = limit_bytes, reason


class MissingExtra(FlintError):
    """A package that is not installed by default is needed."""

    says = "{package} is needed here: pip install 'flintmq[{extra}]'"

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package, self.extra = package, extra


class InvalidExpression(FlintError):
    """A filter expression that cannot be compiled.  ``column`` counts from 1."""

    def __init__(self, expression: str, column: int, reason: str) -> None:
        super().__init__(expression, column, reason)
        self.expression, self.column, self.reason = expression, column, reason

    def __str__(self) -> str:
        line_start = self.expression.rfind("\n", 0, self.column - 1) + 1
        line = self.expression[line_start:].split("\n", 1)[0]
        mark = f"{'^':>{self.column - line_start + 2}}"
        return f"{self.reason} (column {self.column})\n  {line}\n{mark}"


class ExpressionTooLarge(InvalidExpression):
    """A filter expression with more words, tags or characters than a broker reads."""


class InvalidName(FlintError):
    """A name RocketMQ would refuse."""

    says = "{kind} {name!r}: {reason}"

    def __init__(self, kind: str, name: str, reason: str) -> None:
        super().__init__(kind, name, reason)
        self.kind, self.name, self.reason = kind, name, reason


class InvalidSetting(FlintError):
    """A setting that cannot be used as it is."""

    says = "{setting} {value!r}: {reason}"

    def __init__(self, setting: str, value: str, reason: str) -> None:
        super().__init__(setting, value, reason)
        self.setting, self.value, self.reason = setting, value, reason


class InvalidMessage(InvalidSetting, ValueError):
    """A message that cannot be made, or a body that is not what it is read as."""


class InvalidResult(FlintError):
    """A listener returned something that says nothing about its messages; they are redelivered."""

    says = "{value} is no result: {reason}"

    def __init__(self, value: str, reason: str) -> None:
        super().__init__(value, reason)
        self.value, self.reason = value, reason


class CircuitOpen(FlintError):
    """A listener raised in ``failures`` calls in a row, the last time ``error``; its run ended."""

    says = (
        "listener {listener} of topic {topic!r} in group {group!r} raised in {failures} calls in a "
        "row, the last time {error}; the run is stopped, and no offset is committed past a message "
        "that was neither consumed nor sent back: mend what the listener needs and start the run "
        "again, or give a higher failures_max"
    )

    def __init__(self, group: str, topic: str, listener: str, failures: int, error: str) -> None:
        super().__init__(group, topic, listener, failures, error)
        self.group, self.topic, self.listener = group, topic, listener
        self.failures, self.error = failures, error


class Unreachable(FlintError):
    """No reply came back, so the peer may or may not have acted on the request."""

    retriable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address, self.reason = address, reason

    def __str__(self) -> str:
        return printable(f"{self.address}: {self.reason}")


class Overloaded(FlintError):
    """One of our own limits is reached.  ``knob`` names the setting that raises it."""

    retriable = True
    says = "{what} reached its limit of {limit} ({knob})"

    def __init__(self, what: str, limit: int, knob: str) -> None:
        super().__init__(what, limit, knob)
        self.what, self.limit, self.knob = what, limit, knob


class ResultTooLarge(Overloaded):
    """More rows than the caller allowed in memory; nothing is returned."""

    retriable = False


class BrokerRefused(FlintError):
    """The broker or name server answered, and the answer is no."""

    def __init__(self, code: int, remark: str, address: str = "") -> None:
        super().__init__(code, remark, address)
        self.code, self.remark, self.address = code, remark, address

    def __str__(self) -> str:
        return printable(f"{self.address or 'broker'} answered {self.code}: {self.remark}")


class NoRoute(FlintError):
    """No broker is known that could serve a topic."""

    retriable = True
    says = "no route to topic {topic!r}: {reason}"

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(topic, reason)
        self.topic, self.reason = topic, reason


class SendFailed(FlintError):
    """Every try failed, at ``brokers``, joined by commas; ``code`` is the last answer's, or 0.

    The message may be stored all the same, once or more than once.
    """

    retriable = True

    def __init__(
        self, topic: str, tries: int, elapsed_ms: int, brokers: str, code: int, reason: str
    ) -> None:
        super().__init__(topic, tries, elapsed_ms, brokers, code, reason)
        self.topic, self.tries, self.elapsed_ms = topic, tries, elapsed_ms
        self.brokers, self.code, self.reason = brokers, code, reason

    def __str__(self) -> str:
        return (
            f"sending to topic {self.topic!r} failed after {self.tries} tries in "
            f"{self.elapsed_ms} ms (brokers: {self.brokers or 'none'}): {self.reason}"
        )


class PartlySent(FlintError):
    """The first ``stored`` of ``total`` messages are stored; the rest was not tried, or failed."""

    retriable = True

    def __init__(self, topic: str, stored: int, total: int, reason: str) -> None:
        super().__init__(topic, stored, total, reason)
        self.topic, self.stored, self.total, self.reason = topic, stored, total, reason

    def __str__(self) -> str:
        return (
            f"only the first {self.stored} of {self.total} messages to topic {self.topic!r} "
            f"are stored: {self.reason}"
        )


class NoReply(FlintError):
    """A request message was sent, and no reply came.  Somebody may have acted on it."""

    retriable = True
    says = "no reply from topic {topic!r} in {timeout_ms} ms: {reason}"

    def __init__(self, topic: str, timeout_ms: int, reason: str) -> None:
        super().__init__(topic, timeout_ms, reason)
        self.topic, self.timeout_ms, self.reason = topic, timeout_ms, reason


class UndecodableRecord(FlintError):
    """A queue is not read any further: the record at ``offset`` cannot be decoded."""

    def __init__(self, topic: str, broker: str, queue_id: int, offset: int, reason: str) -> None:
        super().__init__(topic, broker, queue_id, offset, reason)
        self.topic, self.broker, self.queue_id = topic, broker, queue_id
        self.offset, self.reason = offset, reason

    def __str__(self) -> str:
        return (
            f"{self.topic}/{self.broker}/{self.queue_id} at {self.offset} cannot be decoded: "
            f"{self.reason}; go on at {self.offset + 1}, or set on_bad_record='skip'"
        )


class MessagesLost(FlintError):
    """Messages that were to be read are no longer there; those who may miss some can go on."""

    says = "{queue}: messages {start} to {stop} are lost: {reason}"

    def __init__(self, queue: str, start: int, stop: int, reason: str) -> None:
        super().__init__(queue, start, stop, reason)
        self.queue, self.start, self.stop, self.reason = queue, start, stop, reason


class GroupConflict(FlintError):
    """A consumer that would not agree with the other members of its group; it was not started."""

    says = "group {group!r}: {reason}"

    def __init__(self, group: str, reason: str) -> None:
        super().__init__(group, reason)
        self.group, self.reason = group, reason


class WrongState(FlintError):
    """A call that the object cannot serve as it is now.  ``state`` says how it is."""

    says = "{what} is {state}: {reason}"

    def __init__(self, what: str, state: str, reason: str) -> None:
        super().__init__(what, state, reason)
        self.what, self.state, self.reason = what, state, reason


class ReceiptExpired(WrongState):
    """The invisible time of a popped message is over: it comes again, to this one or another."""


class CorruptRecord(FlintError):
    """A record in the commit log that cannot be what we wrote."""

    says = "{segment} at byte {position}: {reason}"

    def __init__(self, segment: str, position: int, reason: str) -> None:
        super().__init__(segment, position, reason)
        self.segment, self.position, self.reason = segment, position, reason


class DiskFailed(FlintError):
    """The disk, or the system on its behalf, refused an operation."""

    retriable = True

    def __init__(self, path: str, operation: str, reason: str, number: int = 0) -> None:
        super().__init__(path, operation, reason, number)
        self.path, self.operation, self.reason, self.number = path, operation, reason, number

    @property
    def is_full(self) -> bool:
        """True when only room is missing, so that waiting or deleting helps."""
        return self.number in (errno.ENOSPC, errno.EDQUOT)

    def __str__(self) -> str:
        hint = "; free some space" if self.is_full else ""
        return f"cannot {self.operation} {self.path}: {self.reason}{hint}"


class StoreLocked(FlintError):
    """Another process, ours or a Java broker, works on the store."""

    retriable = True
    says = "{path} is locked: another broker has this store open; stop it first"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class StoreRefused(FlintError):
    """A store directory that cannot be opened, with the file at fault and what to do."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason
