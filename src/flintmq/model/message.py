"""A message as its sender makes it, and as a consumer gets it.

Two types, because they know different things: a `Message` has no queue, no offset
and no times, a `ReceivedMessage` has all of them.  Neither changes after it is made.

`Message` refuses what no broker could store as meant: property names that belong
to the system, blank ones, text that would break the property string apart, and topic
names outside RocketMQ's alphabet.  Whether the topic exists is the broker's to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from flintmq.errors import BodyTooLarge, InvalidName
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

_check_topic = lru_cache(maxsize=TOPICS_KEPT_MAX)(check_sendable_topic)


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """What a producer sends.

    ``keys`` may be given as one text; spaces in it separate keys.  At most one of
    ``delay_level``, ``delay_ms`` and ``deliver_at_ms`` may be given: a level counts from
    1 in the broker's table, the other two need a 5.x broker with its timer on.
    ``wait_stored`` asks the broker to answer only when its flush and copy rules are met.
    """

    topic: str
    body: bytes = field(repr=False)
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
        _check_topic(topic)
        if len(body) > BODY_BYTES_MAX:
            raise BodyTooLarge(BODY_BYTES_MAX, f"a body of {len(body)} bytes")
        if not -(2**31) <= flag < 2**31:
            raise ValueError(f"flag fits 32 bits, {flag} does not")
        if delay_level < 0:
            raise ValueError(f"delay_level must be 0 or more, not {delay_level}")
        if (delay_level > 0) + (delay_ms is not None) + (deliver_at_ms is not None) > 1:
            raise ValueError("give one of delay_level, delay_ms and deliver_at_ms")
        if tags:
            _check_value("tag", tags)
        assign = object.__setattr__
        assign(self, "topic", topic)
        assign(self, "body", bytes(body))
        assign(self, "tags", tags or None)
        assign(self, "keys", _check_keys(keys) if keys else ())
        assign(self, "properties", _check_properties(properties) if properties else {})
        assign(self, "flag", flag)
        assign(self, "delay_level", delay_level)
        assign(self, "delay_ms", delay_ms)
        assign(self, "deliver_at_ms", deliver_at_ms)
        assign(self, "wait_stored", wait_stored)

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


class ReceivedMessage(NamedTuple):
    """What a consumer gets.

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
    def transaction_id(self) -> str | None:
        """The id of the transaction it was sent in, if any."""
        if self.properties.get(names.TRAN_MSG) != "true":
            return None
        return self.properties.get(names.UNIQ_KEY)

    def __hash__(self) -> int:
        return hash((self.broker, self.topic, self.queue_id, self.queue_offset))

    def __repr__(self) -> str:
        return (
            f"<ReceivedMessage {self.topic}/{self.broker}/{self.queue_id} "
            f"at {self.queue_offset}: {self.message_id}, {len(self.body)} bytes>"
        )


def _check_keys(keys: str | Iterable[str]) -> tuple[str, ...]:
    chosen = tuple(filter(None, keys.split(KEY_SEPARATOR)) if isinstance(keys, str) else keys)
    for key in chosen:
        if not key or KEY_SEPARATOR in key:
            raise InvalidName("key", key, "a key has no space in it and is not empty")
        _check_value("key", key)
    return chosen


def _check_properties(properties: Mapping[str, str]) -> dict[str, str]:
    for name, value in properties.items():
        if not name or name.isspace():
            raise InvalidName("property", name, "a name must not be blank")
        if name in names.SYSTEM_NAMES:
            raise InvalidName("property", name, "the name belongs to the system")
        if NAME_VALUE_SEPARATOR in name or PROPERTY_SEPARATOR in name:
            raise InvalidName("property", name, "0x01 and 0x02 end a name")
        if not value or value.isspace():
            raise InvalidName("property", name, "its value must not be blank")
        _check_value("property", value)
    return dict(properties)


def _check_value(kind: str, text: str) -> None:
    if PROPERTY_SEPARATOR in text:
        raise InvalidName(kind, text, "0x02 ends a property")
