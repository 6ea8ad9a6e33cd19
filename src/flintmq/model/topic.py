"""What a topic may be called, which names the system keeps for itself, and who may use one.

A name is checked where it enters: from a user, or from a request that creates something.
The alphabet has neither ``.`` nor ``/``, so a checked name is safe as a directory.  Names
the broker makes itself are not checked: ``%RETRY%group+topic`` is one it would refuse.
"""

from __future__ import annotations

import re
from enum import IntFlag

from flintmq.errors import InvalidName, InvalidSetting

TOPIC_CHARACTERS_MAX = 127
"""One signed byte of a stored record holds the length."""

NAME_PATTERN = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)
"""The alphabet of topic and group names."""

AUTO_CREATE_TOPIC = "TBW102"
"""The topic whose settings a topic made by its first message inherits."""

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Where half messages end that nobody settled after many checks."""

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC = "BenchmarkTest"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
TIMER_TOPIC = "rmq_sys_wheel_timer"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"

SYSTEM_TOPIC_PREFIX = "rmq_sys_"

NOT_FOR_PRODUCERS = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECK_MAX_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Topics only the broker itself writes to."""

SYSTEM_TOPICS = NOT_FOR_PRODUCERS | {
    AUTO_CREATE_TOPIC,
    TRACE_TOPIC,
    BENCHMARK_TOPIC,
    CHECKPOINT_TOPIC,
}
"""Fixed names.  A broker adds its cluster's name, its own and its reply topic."""


class Permission(IntFlag):
    """The permissions of clients on a topic, or on a whole broker."""

    INHERIT = 1
    """New topics may take this one as their template."""

    WRITE = 2
    READ = 4
    PRIORITY = 8

    @property
    def letters(self) -> str:
        """The permissions as the admin tools print them: ``RWX``, ``R--``, ``-W-`` …"""
        marks = ((Permission.READ, "R"), (Permission.WRITE, "W"), (Permission.INHERIT, "X"))
        return "".join(letter if self & bit else "-" for bit, letter in marks)


READ_WRITE = Permission.READ | Permission.WRITE


class TopicFlag(IntFlag):
    """System flags of a topic.  Units are deployments that share a cluster."""

    UNIT = 1
    UNIT_SUBSCRIPTION = 2


def check_topic_name(name: str) -> None:
    """Raise `InvalidName` for what no broker would create."""
    if not name.strip():
        raise InvalidName("topic", name, "is blank")
    if not NAME_PATTERN.fullmatch(name):
        raise InvalidName("topic", name, "has characters other than % | a-z A-Z 0-9 _ -")
    if len(name) > TOPIC_CHARACTERS_MAX:
        raise InvalidName("topic", name, f"is longer than {TOPIC_CHARACTERS_MAX} characters")


def check_sendable_topic(name: str) -> None:
    """Raise `InvalidName` also for topics that belong to the broker."""
    check_topic_name(name)
    if name in NOT_FOR_PRODUCERS:
        raise InvalidName("topic", name, "is written by the broker alone")


def is_system_topic(name: str) -> bool:
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)


def reply_topic(cluster: str) -> str:
    return f"{cluster}_REPLY_TOPIC"


def check_namespace(namespace: str) -> None:
    """Raise `InvalidSetting` for a namespace that no name may begin with; "" is none."""
    if namespace and not NAME_PATTERN.fullmatch(namespace):
        raise InvalidSetting(
            "namespace", namespace, "has characters other than % | a-z A-Z 0-9 _ -"
        )
