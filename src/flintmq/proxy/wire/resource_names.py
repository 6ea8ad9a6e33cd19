"""Names of topics and groups as calls give them, checked with RocketMQ's words."""

from __future__ import annotations

from typing import Any, Final

from flintmq.model.group import GROUP_CHARACTERS_MAX, is_system_group
from flintmq.model.topic import NAME_PATTERN, TOPIC_CHARACTERS_MAX, is_system_topic
from flintmq.proxy.wire.grpc_codes import Code
from flintmq.proxy.wire.statuses import StatusRefusal

_ALPHABET: Final = "allowing only ^[%|a-zA-Z0-9_-]+$"


def topic_of(resource: Any) -> str:
    """The topic a resource names; `StatusRefusal` for a name no topic of a user has."""
    name: str = resource.name
    if not name.strip():
        raise _illegal_topic("The specified topic is blank")
    if len(name) > TOPIC_CHARACTERS_MAX:
        longest = f"topic max length {TOPIC_CHARACTERS_MAX}"
        raise _illegal_topic(f"The specified topic is longer than {longest}.")
    if not NAME_PATTERN.fullmatch(name):
        raise _illegal_topic(
            f"The specified topic[{name}] contains illegal characters, {_ALPHABET}"
        )
    if is_system_topic(name):
        raise _illegal_topic("cannot access system topic")
    return name


def group_of(resource: Any) -> str:
    """The consumer group a resource names; `StatusRefusal` for one nobody may use."""
    name: str = resource.name
    if not name.strip():
        raise _illegal_group("the specified group is blank")
    if len(name) > GROUP_CHARACTERS_MAX:
        raise _illegal_group(
            f"the specified group is longer than group max length {GROUP_CHARACTERS_MAX}."
        )
    if not NAME_PATTERN.fullmatch(name):
        raise _illegal_group(
            f"the specified group[{name}] contains illegal characters, {_ALPHABET}"
        )
    if is_system_group(name):
        raise _illegal_group("cannot use system consumer group")
    return name


def _illegal_topic(text: str) -> StatusRefusal:
    return StatusRefusal(Code.ILLEGAL_TOPIC, text)


def _illegal_group(text: str) -> StatusRefusal:
    return StatusRefusal(Code.ILLEGAL_CONSUMER_GROUP, text)
