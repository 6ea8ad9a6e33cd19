"""The overview: what is wrong first, then brokers, rates, disks, and who is furthest behind.

It costs one question to each broker; topics and groups come from the samples that are there anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

from flintmq.console.showing.asked import Asked
from flintmq.console.showing.charts import Series, line_chart
from flintmq.console.showing.page import Values
from flintmq.console.showing.templates import link
from flintmq.console.watching.history import GroupHistory, History, Sample, TopicHistory
from flintmq.core.admin.broker_status import BrokerStatus
from flintmq.core.admin.topics import TopicKind
from flintmq.model.group import DEAD_LETTER_PREFIX

TOP: Final = 8
"""Rows of the short tables."""

DISK_WARNING: Final = 0.75
"""From here on a broker deletes messages before their time."""

DAY_MS: Final = 86_400_000

GROWING: Final = 6
"""Samples in a row, a minute, over which a lag grew before it is a warning."""


class Warned(NamedTuple):
    """A warning, and the page that tells more."""

    text: str
    link: str = ""


async def load_overview(asked: Asked) -> Values:
    brokers = await asked.cluster.status()
    history = asked.site.history
    figures = [each.figures for each in brokers if each.figures is not None]
    return {
        "warnings": list(_warnings(brokers, history, asked.site.wall())),
        "brokers": brokers,
        "sent_per_s": sum(each.sent_per_s or 0 for each in figures),
        "delivered_per_s": sum(each.delivered_per_s or 0 for each in figures),
        "topic_count": max((each.topic_count for each in figures), default=None),
        "group_count": max((each.group_count for each in figures), default=None),
        "oldest_ms": min((each.oldest_ms for each in figures if each.oldest_ms), default=None),
        "behind": _behind(history.groups.items()),
        "busy": _busy(history.topics.items()),
        "is_whole": history.is_whole,
        "swept_ms": history.swept_ms,
        "chart": line_chart(
            "Messages a second",
            (Series("sent", history.sent), Series("delivered", history.delivered)),
        ),
    }


def _warnings(brokers: Iterable[BrokerStatus], history: History, now_ms: int) -> Iterator[Warned]:
    masters: dict[str, bool] = {}
    for each in brokers:
        masters[each.broker] = masters.get(each.broker, False) or each.role == "master"
        if each.figures is None:
            yield Warned(f"{each.broker} at {each.address} does not answer: {each.error}")
        elif (each.figures.disk_ratio or 0) >= DISK_WARNING:
            share = f"{100 * (each.figures.disk_ratio or 0):.0f} %"
            yield Warned(
                f"The disk of {each.broker} is {share} full: "
                "messages are deleted before their retention ends."
            )
    for broker, has_master in masters.items():
        if not has_master:
            yield Warned(f"{broker} has no master: it takes no messages.")
    if not masters:
        yield Warned("No broker is registered. Is one running with this name server?")
    for name, group in history.groups.items():
        if is_growing(list(group.behind)[-GROWING:]):
            text = f"{name} is {group.behind[-1].value:,.0f} messages behind, and the lag grows."
            yield Warned(text, link("/group", name=name))
    for name, topic in history.topics.items():
        last_ms = topic.last_ms or 0
        is_letter = topic.kind is TopicKind.DEAD_LETTER and topic.messages
        if is_letter and now_ms - last_ms < DAY_MS:
            owner = name.removeprefix(DEAD_LETTER_PREFIX)
            text = f"{owner} has {topic.messages:,} dead letters, the last one less than a day old."
            yield Warned(text, link("/dead-letters/group", name=owner))
    if history.error is not None:
        yield Warned(f"Samples are not taken: {history.error}")


def is_growing(samples: list[Sample]) -> bool:
    """Whether a lag grew from each sample to the next, over all of `GROWING`."""
    values = [each.value for each in samples]
    return len(values) >= GROWING and all(before < after for before, after in pairwise(values))


def _behind(groups: Iterable[tuple[str, GroupHistory]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"name": name, "lag": each.lag.lag, "trend": each.trend}
        for name, each in groups
        if each.lag is not None and each.lag.lag
    ]
    return sorted(rows, key=lambda row: (-row["lag"], row["name"]))[:TOP]


def _busy(topics: Iterable[tuple[str, TopicHistory]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"name": name, "per_s": each.per_s[-1].value, "messages": each.messages}
        for name, each in topics
        if each.kind is TopicKind.NORMAL and each.per_s
    ]
    return sorted(rows, key=lambda row: (-row["per_s"], row["name"]))[:TOP]
