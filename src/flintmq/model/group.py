"""Consumer and producer groups: their names, the topics derived from them, how they consume.

Every consumer group has a retry topic and, once something failed for good, a dead letter
topic.  A namespace is a prefix of topics and groups, ``ns%name``; in a derived topic it
stands after the prefix: ``%RETRY%ns%group``.
"""

from __future__ import annotations

from enum import StrEnum

from flintmq.errors import InvalidName
from flintmq.model.topic import NAME_PATTERN, is_system_topic

GROUP_CHARACTERS_MAX = 255
"""What clients check before they start, and brokers of 5.x before they make a group."""

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
NAMESPACE_SEPARATOR = "%"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
"""Whose offsets say how far half messages were checked."""

TOOLS_GROUP = "TOOLS_CONSUMER"
INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
"""The producer every client instance carries, for messages it sends back itself."""

PRESET_GROUPS = (
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)
"""Groups a broker has from the start."""


class ConsumeType(StrEnum):
    """Who decides when a consumer gets messages.  The order is the ordinal on the wire."""

    PULL = "CONSUME_ACTIVELY"
    PUSH = "CONSUME_PASSIVELY"
    POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """Whether each member gets every message, or the group shares them."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """The start of a group that has no offset yet.  The second to fourth are history."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    LAST_OFFSET_AND_FROM_MIN = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


def check_group_name(name: str) -> None:
    """Raise `InvalidName` for what a client or a broker would refuse."""
    if not name.strip():
        raise InvalidName("group", name, "is blank")
    if len(name) > GROUP_CHARACTERS_MAX:
        raise InvalidName("group", name, f"is longer than {GROUP_CHARACTERS_MAX} characters")
    if not NAME_PATTERN.fullmatch(name):
        raise InvalidName("group", name, "has characters other than % | a-z A-Z 0-9 _ -")


def is_system_group(name: str) -> bool:
    return name.startswith(SYSTEM_GROUP_PREFIX)


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    return DEAD_LETTER_PREFIX + group


def is_retry_topic(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def is_dead_letter_topic(topic: str) -> bool:
    return topic.startswith(DEAD_LETTER_PREFIX)


def group_of_retry_topic(topic: str) -> str:
    """The group behind ``%RETRY%group``, or behind the pop form ``%RETRY%group+topic``.

    The older pop form joins with ``_``, which group names may contain too: it comes back whole.
    """
    assert is_retry_topic(topic), topic
    return topic.removeprefix(RETRY_PREFIX).partition("+")[0]


def with_namespace(namespace: str, name: str) -> str:
    """Put a topic or group into a namespace.  System names and wrapped names stay as they are."""
    if not namespace or not name or _is_system_name(name):
        return name
    prefix, rest = _split_prefix(name)
    wrapped = namespace + NAMESPACE_SEPARATOR
    return name if rest.startswith(wrapped) else prefix + wrapped + rest


def without_namespace(namespace: str, name: str) -> str:
    """Take a topic or group out of its namespace.  Names of other namespaces stay."""
    if not namespace or _is_system_name(name):
        return name
    prefix, rest = _split_prefix(name)
    return prefix + rest.removeprefix(namespace + NAMESPACE_SEPARATOR)


def _is_system_name(name: str) -> bool:
    return is_system_topic(name) or is_system_group(name)


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name
