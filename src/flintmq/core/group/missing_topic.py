"""What to say of a subscribed topic that no name server knows."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from flintmq.model.group import is_dead_letter_topic, is_retry_topic
from flintmq.model.topic import is_system_topic


def describe_missing(topic: str, known: Iterable[str]) -> str:
    """The sentence, with the nearest of the topics that exist if one is near."""
    near = nearest_topic(topic, known)
    guess = f"; did you mean {near!r}?" if near else ""
    return f"topic {topic!r} has no route: nobody created it yet{guess}"


def nearest_topic(topic: str, known: Iterable[str]) -> str | None:
    """The topic that a misspelt name may mean, if one is near."""
    own = [name for name in known if not is_of_brokers(name)]
    return next(iter(get_close_matches(topic, own, 1)), None)


def is_of_brokers(topic: str) -> bool:
    """Whether brokers create a topic by themselves, so that nobody misspells it."""
    return is_retry_topic(topic) or is_dead_letter_topic(topic) or is_system_topic(topic)
