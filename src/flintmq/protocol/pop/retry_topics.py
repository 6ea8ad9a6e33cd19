"""The topics that popped messages come back through, one for each group and topic.

There are two ways to join the names.  The older one joins with ``_``, which names may hold
themselves, so it can be made and not taken apart; the newer one joins with ``+``, which no name
holds.  In handles and in the texts of an answer a mark of one character tells the three kinds
of topic apart.
"""

from __future__ import annotations

from typing import Final

from flintmq.errors import MalformedHeader
from flintmq.model.group import RETRY_PREFIX, is_retry_topic

NORMAL_MARK: Final = "0"
RETRY_V1_MARK: Final = "1"
RETRY_V2_MARK: Final = "2"

V2_SEPARATOR: Final = "+"


def retry_topic_v1(group: str, topic: str) -> str:
    """``%RETRY%group_topic``."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def retry_topic_v2(group: str, topic: str) -> str:
    """``%RETRY%group+topic``."""
    return f"{RETRY_PREFIX}{group}{V2_SEPARATOR}{topic}"


def mark_of(topic: str) -> str:
    """The mark of a topic, by its name alone."""
    if not is_retry_topic(topic):
        return NORMAL_MARK
    return RETRY_V2_MARK if V2_SEPARATOR in topic else RETRY_V1_MARK


def marked_topic(mark: str, group: str, topic: str) -> str:
    """The topic that a mark means for a group that pops ``topic``.  Raises `MalformedHeader`."""
    if mark == NORMAL_MARK:
        return topic
    if mark == RETRY_V1_MARK:
        return retry_topic_v1(group, topic)
    if mark == RETRY_V2_MARK:
        return retry_topic_v2(group, topic)
    raise MalformedHeader("extraInfo", f"no topic has the mark {mark!r:.40}")


def topic_behind(retry_topic: str, group: str) -> str | None:
    """The topic whose messages of a group come back through ``retry_topic``; None: not that."""
    for separator in (V2_SEPARATOR, "_"):
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if retry_topic.startswith(prefix) and len(retry_topic) > len(prefix):
            return retry_topic.removeprefix(prefix)
    return None
