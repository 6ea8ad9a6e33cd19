"""What is wrong with the name of a topic or a group, in RocketMQ's words."""

from __future__ import annotations

from flintmq.model.group import GROUP_CHARACTERS_MAX
from flintmq.model.topic import NAME_PATTERN, TOPIC_CHARACTERS_MAX


def topic_fault(name: str) -> str | None:
    return _fault("topic", name, TOPIC_CHARACTERS_MAX)


def group_fault(name: str) -> str | None:
    return _fault("group", name, GROUP_CHARACTERS_MAX)


def _fault(kind: str, name: str, characters_max: int) -> str | None:
    if not name.strip():
        return f"The specified {kind} is blank."
    if not NAME_PATTERN.fullmatch(name):
        allowed = "^[%|a-zA-Z0-9_-]+$"
        return f"The specified {kind} contains illegal characters, allowing only {allowed}"
    if len(name) > characters_max:
        return f"The specified {kind} is longer than {kind} max length."
    return None
