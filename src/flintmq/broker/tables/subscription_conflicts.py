"""Members of one group that want different things, which RocketMQ lets overwrite each other.

What a member wants is kept as one text per topic, written so that equal texts mean the same:
tags in order, SQL as it came, and of a long text its start and a digest.  The group's own retry
topic does not count; some clients subscribe to it later than to the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

import msgspec

from flintmq.filter.tags import canonical_tags
from flintmq.model.group import retry_topic
from flintmq.protocol.bodies.client import Subscription

ABSENT = "not subscribed"
"""What a conflict says of a member that leaves a topic out."""


KEPT_CHARACTERS = 200
"""Of one text, for every member: a member that lists thousands of tags costs no more."""


class SubscriptionWishes(msgspec.Struct, frozen=True, gc=False):
    """What one client wants, by topic."""

    client_id: str
    texts: Mapping[str, str]


class SubscriptionConflict(msgspec.Struct, frozen=True, gc=False):
    """Two clients of a group that want different things of one topic."""

    group: str
    topic: str
    client_id: str
    text: str
    other_client_id: str
    other_text: str

    def __str__(self) -> str:
        return (
            f"{self.group} in {self.topic}: {self.client_id} wants {self.text!r}, "
            f"{self.other_client_id} wants {self.other_text!r}"
        )


def wishes_of(
    group: str, client_id: str, subscriptions: Iterable[Subscription]
) -> SubscriptionWishes:
    own_retries = retry_topic(group)
    texts = {each.topic: _text(each) for each in subscriptions if each.topic != own_retries}
    return SubscriptionWishes(client_id, texts)


def conflicts_of(
    group: str, wishes: SubscriptionWishes, others: Iterable[SubscriptionWishes]
) -> Iterator[SubscriptionConflict]:
    """How a client differs from others: every other meaning of a topic once.

    Another connection of the same client is no other: it is an old one about to go.
    """
    seen: dict[str, set[str]] = {}
    for other in others:
        if other.texts == wishes.texts or other.client_id == wishes.client_id:
            continue
        for topic in dict.fromkeys([*wishes.texts, *other.texts]):
            text = wishes.texts.get(topic, ABSENT)
            other_text = other.texts.get(topic, ABSENT)
            known = seen.setdefault(topic, {text})
            if other_text not in known:
                known.add(other_text)
                yield SubscriptionConflict(
                    group, topic, wishes.client_id, text, other.client_id, other_text
                )


def _text(subscription: Subscription) -> str:
    text = _full_text(subscription)
    if len(text) <= KEPT_CHARACTERS:
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text[:KEPT_CHARACTERS]}… ({len(text)} characters, {digest})"


def _full_text(subscription: Subscription) -> str:
    if not subscription.is_tag:
        return f"{subscription.expression_type} {subscription.sub_string}"
    return canonical_tags(subscription.sub_string)
