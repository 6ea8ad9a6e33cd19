"""Counts a report on topics in this process: the same figures that Spark counts.

It holds a few values of each message in memory, so it is for topics of up to
`LOCAL_MESSAGES_MAX` messages.  Quantiles are exact.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from flintmq.model.group import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_dead_letter_topic
from flintmq.reports.topic_figures import (
    ALL,
    DEAD,
    NAMES_MAX,
    NOTHING,
    QUANTILES,
    RETRY,
    NameCount,
    Numbers,
    RetryCount,
    Step,
    choose_step_ms,
)
from flintmq.reports.topic_files import TopicReport

LOCAL_MESSAGES_MAX: Final = 200_000
"""Messages that are counted in this process: some seconds and 200 MB; Spark takes longer to start
and is quicker beyond."""


class CountedMessage(NamedTuple):
    """What a report has to know of a message.  ``size`` is None where it cannot be decoded."""

    topic: str
    stored_ms: int | None
    latency_ms: int | None
    size: int | None
    tags: str | None
    keys: tuple[str, ...]


class RetriedMessage(NamedTuple):
    """A message in a retry or dead letter topic; ``origin`` is the topic it was sent to."""

    topic: str
    origin: str | None
    stored_ms: int


def count_topics(
    messages: Iterable[CountedMessage],
    retried: Iterable[RetriedMessage] = (),
    *,
    step_ms: int | None = None,
) -> TopicReport:
    """The report on these messages, and on retries and dead letters of the same topics."""
    by_topic: dict[str, list[CountedMessage]] = defaultdict(list)
    for message in messages:
        by_topic[message.topic].append(message)
    everything = [each for found in by_topic.values() for each in found]
    summary = [_numbers(ALL, everything)] if everything else [NOTHING]
    summary += [_numbers(topic, by_topic[topic]) for topic in sorted(by_topic)]
    first_ms, last_ms = summary[0].first_ms, summary[0].last_ms
    again = [
        each
        for each in retried
        if first_ms is not None and each.stored_ms >= first_ms and each.origin in by_topic
    ]
    ends_ms = [last_ms or 0, *(each.stored_ms for each in again)]
    step_ms = choose_step_ms(first_ms, max(ends_ms), step_ms)
    return TopicReport(
        tuple(summary),
        step_ms,
        _steps(everything, step_ms),
        _names((each.topic, each.tags) for each in everything),
        _names((each.topic, key) for each in everything for key in each.keys),
        _retries(again, step_ms),
    )


def _numbers(topic: str, messages: list[CountedMessage]) -> Numbers:
    stored = [each.stored_ms for each in messages if each.stored_ms is not None]
    sizes = sorted(each.size for each in messages if each.size is not None)
    latencies = sorted(each.latency_ms for each in messages if each.latency_ms is not None)
    return Numbers(
        topic,
        len(messages),
        sum(sizes),
        min(stored, default=None),
        max(stored, default=None),
        tuple(each or 0 for each in _quantiles(sizes)),
        _quantiles(latencies),
        sum(each < 0 for each in latencies),
        sum(each.tags is None for each in messages),
        sum(not each.keys for each in messages),
        len(messages) - len(sizes),
    )


def _quantiles(ordered: list[int]) -> tuple[int | None, ...]:
    """The values of `QUANTILES`, each one that occurs, and the largest."""
    if not ordered:
        return (None,) * (len(QUANTILES) + 1)
    ranks = (max(1, -(-round(share * 1000) * len(ordered) // 1000)) for share in QUANTILES)
    return (*(ordered[rank - 1] for rank in ranks), ordered[-1])


def _steps(messages: list[CountedMessage], step_ms: int) -> tuple[Step, ...]:
    by_step: dict[tuple[int, str], list[CountedMessage]] = defaultdict(list)
    for each in messages:
        if each.stored_ms is not None:
            start_ms = each.stored_ms - each.stored_ms % step_ms
            by_step[start_ms, ""].append(each)  # sorts before every topic
            by_step[start_ms, each.topic].append(each)
    return tuple(
        Step(start_ms, _numbers(topic or ALL, by_step[start_ms, topic]))
        for start_ms, topic in sorted(by_step)
    )


def _names(pairs: Iterable[tuple[str, str | None]]) -> tuple[NameCount, ...]:
    """The most frequent names of each topic, and of all together."""
    counts: dict[str, Counter[str | None]] = defaultdict(Counter)
    for topic, name in pairs:
        counts[topic][name] += 1
        counts[ALL][name] += 1
    return tuple(
        NameCount(topic, name, messages)
        for topic, found in sorted(counts.items())
        for name, messages in sorted(
            found.items(), key=lambda pair: (-pair[1], pair[0] is not None, pair[0] or "")
        )[:NAMES_MAX]
    )


def _retries(again: Iterable[RetriedMessage], step_ms: int) -> tuple[RetryCount, ...]:
    counts = Counter(
        (each.stored_ms - each.stored_ms % step_ms, each.origin or "", each.topic) for each in again
    )
    return tuple(
        RetryCount(
            start_ms,
            origin,
            topic.removeprefix(RETRY_PREFIX).removeprefix(DEAD_LETTER_PREFIX),
            DEAD if is_dead_letter_topic(topic) else RETRY,
            messages,
        )
        for (start_ms, origin, topic), messages in sorted(counts.items())
    )
