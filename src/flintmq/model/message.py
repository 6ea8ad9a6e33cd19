"""A message as its sender makes it, and as a consumer gets it.

Two types, because they know different things: a `Message` has no queue, no offset
and no times, a `ReceivedMessage` has all of them.  Neither changes after it is made.

`Message` refuses what no broker could store as meant: wrong types, an empty body, property names
that belong to the system, blank ones, text that would break the property string apart, more
properties than a record holds, and topic names outside RocketMQ's alphabet.  Whether the topic
exists is the broker's to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar, overload

from flintmq.errors import BodyTooLarge, InvalidMessage, InvalidName
from flintmq.model import properties as names
from flintmq.model.host import Host
from flintmq.model.message_id import offset_id
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.topic import check_sendable_topic

BODY_BYTES_MAX = 32 * 1024 * 1024
"""A guard against runaway memory.  The broker's own limit is lower: 4 MiB by default."""

KEY_SEPARATOR = " "
NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"

TOPICS_KEPT_MAX = 1_024
"""Topics known to be good: a producer sends to few."""

SHOWN_BYTES_MAX: Final = 40
"""As much of a body or a wrong value as `repr` and errors show."""

T = TypeVar("T")

_check_topic = lru_cache(maxsize=TOPICS_KEPT_MAX)(check_sendable_topic)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Message:
    """A message as a producer sends it.

    ``body`` is bytes; `Message.json` makes one of a value.

    ``keys`` may be given as one text; spaces in it separate keys.  At most one of
    ``delay_level``, ``delay_ms`` and ``deliver_at_ms`` may be given: a level counts from
    1 in the broker's table, where one above the last (18 by default, two hours) is the last; the
    other two need a 5.x broker with its timer on.
    ``wait_stored`` asks the broker to answer only when its flush and copy rules are met.
    """

    topic: str
    body: bytes
    tags: str | None
    keys: tuple[str, ...]
    properties: Mapping[str, str] = field(hash=False)
    flag: int
    delay_level: int
    delay_ms: int | None
    deliver_at_ms: int | None
    wait_stored: bool

    def __init__(
        self,
        topic: str,
        body: bytes,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        delay_level: int = 0,
        delay_ms: int | None = None,
        deliver_at_ms: int | None = None,
        wait_stored: bool = True,
    ) -> None:
        if not isinstance(topic, str):
            raise _wrong("topic", topic, "give the name of a topic")
        _check_topic(topic)
        body = body if type(body) is bytes else _as_bytes(body)
        if not body:
            raise InvalidMessage("body", "", "is empty, and RocketMQ stores no empty messages")
        if len(body) > BODY_BYTES_MAX:
            raise BodyTooLarge(BODY_BYTES_MAX, f"a body of {len(body)} bytes")
        if flag != 0:
            _check_number("flag", flag, -(2**31), 2**31 - 1)
        if delay_level != 0 or delay_ms is not None or deliver_at_ms is not None:
            _check_delays(delay_level, delay_ms, deliver_at_ms)
        if tags:
            _check_value("tags", tags)
        _put_topic(self, topic)
        _put_body(self, body)
        _put_tags(self, tags or None)
        _put_keys(self, _check_keys(keys) if keys else ())
        _put_properties(self, _check_properties(properties) if properties else {})
        _put_flag(self, flag)
        _put_delay_level(self, delay_level)
        _put_delay_ms(self, delay_ms)
        _put_deliver_at_ms(self, deliver_at_ms)
        _put_wait_stored(self, wait_stored)

    @classmethod
    def json(
        cls,
        topic: str,
        value: object,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        delay_level: int = 0,
        delay_ms: int | None = None,
        deliver_at_ms: int | None = None,
        wait_stored: bool = True,
    ) -> Message:
        """A message whose body is ``value`` as JSON, in UTF-8.

        Besides what JSON has, it takes dataclasses, `datetime`, `UUID`, `Decimal`, enums, sets and
        msgspec structs.  A value that cannot be written is `InvalidMessage`.
        """
        import msgspec  # here, because a program that sends bytes does not need it

        try:
            body = msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise _wrong("value", value, f"cannot be written as JSON: {error}") from None
        return cls(
            topic,
            body,
            tags=tags,
            keys=keys,
            properties=properties,
            flag=flag,
            delay_level=delay_level,
            delay_ms=delay_ms,
            deliver_at_ms=deliver_at_ms,
            wait_stored=wait_stored,
        )

    def __repr__(self) -> str:
        given = {
            "tags": self.tags,
            "keys": self.keys,
            "properties": dict(self.properties),
            "flag": self.flag,
            "delay_level": self.delay_level,
            "delay_ms": self.delay_ms,
            "deliver_at_ms": self.deliver_at_ms,
        }
        parts = [repr(self.topic), _shortened(self.body)]
        parts += [f"{name}={value!r}" for name, value in given.items() if value]
        return f"Message({', '.join(parts)})"

    def all_properties(self) -> dict[str, str]:
        """The user's properties and those that stand for the other fields."""
        found = dict(self.properties)
        if self.tags is not None:
            found[names.TAGS] = self.tags
        if self.keys:
            found[names.KEYS] = KEY_SEPARATOR.join(self.keys)
        if self.delay_level:
            found[names.DELAY] = str(self.delay_level)
        if self.delay_ms is not None:
            found[names.TIMER_DELAY_MS] = str(self.delay_ms)
        if self.deliver_at_ms is not None:
            found[names.TIMER_DELIVER_MS] = str(self.deliver_at_ms)
        found[names.WAIT] = "true" if self.wait_stored else "false"
        return found


# A frozen class is written through its slots, which is quicker than by `object.__setattr__`.
(
    _put_topic, _put_body, _put_tags, _put_keys, _put_properties, _put_flag,
    _put_delay_level, _put_delay_ms, _put_deliver_at_ms, _put_wait_stored,
) = (vars(Message)[name].__set__ for name in Message.__slots__)  # fmt: skip


class ReceivedMessage(NamedTuple):
    """A message as a consumer receives it.

    ``body`` is unpacked, and ``sys_flag`` no longer says that it was packed.  ``topic``
    is the topic of the queue it came from.  ``stored_bytes`` is the size of its record
    in the log; the messages of an inner batch share one record and its ``log_offset``.

    It is a tuple because consumers make more of these than of anything else, and no
    other frozen value is made as fast.
    """

    topic: str
    broker: str
    queue_id: int
    queue_offset: QueueOffset
    log_offset: LogOffset
    body: bytes
    properties: Mapping[str, str]
    flag: int
    sys_flag: int
    born_ms: int
    born_host: Host
    store_ms: int
    store_host: Host
    reconsume_times: int
    prepared_offset: LogOffset
    stored_bytes: int

    @property
    def tags(self) -> str | None:
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(filter(None, self.properties.get(names.KEYS, "").split(KEY_SEPARATOR)))

    @property
    def message_id(self) -> str:
        """The id its sender gave it, or where it is stored when the sender gave none."""
        return self.properties.get(names.UNIQ_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        return offset_id(self.store_host, self.log_offset)

    @property
    def receipt(self) -> str | None:
        """The receipt by which a popped message is acknowledged; None of any other."""
        return self.properties.get(names.POP_CK)

    @property
    def transaction_id(self) -> str | None:
        """The id of the transaction it was sent in, if any."""
        if self.properties.get(names.TRAN_MSG) != "true":
            return None
        return self.properties.get(names.UNIQ_KEY)

    @property
    def text(self) -> str:
        """The body as UTF-8 text; `InvalidMessage` when it is none."""
        try:
            return self.body.decode()
        except UnicodeDecodeError as error:
            raise self._not_a("UTF-8 text", error) from None

    @overload
    def json(self) -> Any: ...

    @overload
    def json(self, kind: type[T]) -> T: ...

    def json(self, kind: Any = Any) -> Any:
        """The body as a JSON value; `InvalidMessage` when it is none.

        With ``kind`` the value is checked and is of that type: ``message.json(Order)`` gives an
        ``Order``, for dataclasses, typed dicts, named tuples and msgspec structs, ``list[int]`` …
        """
        import msgspec  # here, because a program that reads bytes does not need it

        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = "JSON" if kind is Any else f"JSON of {getattr(kind, '__name__', kind)}"
            raise self._not_a(what, error) from None

    def _not_a(self, what: str, error: Exception) -> InvalidMessage:
        place = f"{self.topic}/{self.broker}/{self.queue_id} at {self.queue_offset}"
        which = f"body of {self.message_id} ({place})"
        shown = self.body[:SHOWN_BYTES_MAX].decode("utf-8", "backslashreplace")
        return InvalidMessage(which, shown, f"is no {what}: {error}")

    def __hash__(self) -> int:
        return hash((self.broker, self.topic, self.queue_id, self.queue_offset))

    def __repr__(self) -> str:
        return (
            f"<ReceivedMessage {self.topic}/{self.broker}/{self.queue_id} "
            f"at {self.queue_offset}: {self.message_id}, {len(self.body)} bytes>"
        )


def _as_bytes(body: object) -> bytes:
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    hint = "give bytes; Message.json makes a message of a value"
    if isinstance(body, str):
        hint = "write it as bytes with .encode(), or use Message.json"
    raise _wrong("body", body, hint)


def _check_number(name: str, number: object, least: int, most: int) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise _wrong(name, number, f"give a whole number from {least} to {most}")


def _check_delays(level: object, delay_ms: object, deliver_at_ms: object) -> None:
    _check_number("delay_level", level, 0, 2**31 - 1)
    for name, number in (("delay_ms", delay_ms), ("deliver_at_ms", deliver_at_ms)):
        if number is not None:
            _check_number(name, number, 0, 2**63 - 1)
    given = (level != 0) + (delay_ms is not None) + (deliver_at_ms is not None)
    if given > 1:
        raise InvalidMessage(
            "delay_level", str(level), "give one of delay_level, delay_ms and deliver_at_ms"
        )


def _check_keys(keys: object) -> tuple[str, ...]:
    if isinstance(keys, str):
        chosen: tuple[object, ...] = tuple(filter(None, keys.split(KEY_SEPARATOR)))
    elif isinstance(keys, bytes) or not isinstance(keys, Iterable):
        raise _wrong("keys", keys, "give a text, or several in a list")
    else:
        chosen = tuple(keys)
    return tuple(map(_check_key, chosen))


def _check_key(key: object) -> str:
    text = _check_value("keys", key)
    if not text or KEY_SEPARATOR in text:
        raise InvalidName("key", text, "a key has no space in it and is not empty")
    return text


def _check_properties(properties: object) -> dict[str, str]:
    if not isinstance(properties, Mapping):
        raise _wrong("properties", properties, "give a dict of texts")
    size_bytes = 0
    for name, value in properties.items():
        if not isinstance(name, str):
            raise _wrong("properties", name, "the name of a property is text")
        if not isinstance(value, str):
            hint = f"the value of {name!r} is text: write str(…) around it"
            raise _wrong("properties", value, hint)
        if not name or name.isspace():
            raise InvalidName("property", name, "a name must not be blank")
        if name in names.SYSTEM_NAMES:
            raise InvalidName("property", name, "the name belongs to the system")
        if NAME_VALUE_SEPARATOR in name or PROPERTY_SEPARATOR in name:
            raise InvalidName("property", name, "0x01 and 0x02 end a name")
        if not value or value.isspace():
            raise InvalidName("property", name, "its value must not be blank")
        if PROPERTY_SEPARATOR in value:
            raise InvalidName("property", value, "0x02 ends a property")
        size_bytes += len(name) + len(value) + 2
        if not (name.isascii() and value.isascii()):
            size_bytes += _utf8_excess("properties", name + value)
    if size_bytes > names.BYTES_MAX:
        shown = f"{len(properties)} properties"
        reason = f"take {size_bytes} bytes and a record has room for {names.BYTES_MAX}"
        raise InvalidMessage("properties", shown, reason)
    return dict(properties)


def _check_value(name: str, text: object) -> str:
    if not isinstance(text, str):
        raise _wrong(name, text, "give text")
    if PROPERTY_SEPARATOR in text:
        raise InvalidName(name, text, "0x02 ends a property")
    if not text.isascii():
        _utf8_excess(name, text)
    return text


def _utf8_excess(name: str, text: str) -> int:
    """How many bytes more than characters a text has in UTF-8."""
    try:
        return len(text.encode()) - len(text)
    except UnicodeEncodeError as error:
        raise _wrong(name, ascii(text), f"is no Unicode text: {error.reason}") from None


def _wrong(name: str, value: object, reason: str) -> InvalidMessage:
    shown = str(value)
    if len(shown) > SHOWN_BYTES_MAX:
        shown = f"{shown[:SHOWN_BYTES_MAX]}…"
    return InvalidMessage(name, shown, f"is of type {type(value).__name__}; {reason}")


def _shortened(body: bytes) -> str:
    if len(body) <= SHOWN_BYTES_MAX:
        return repr(body)
    return f"{body[:SHOWN_BYTES_MAX]!r}… ({len(body)} bytes)"
