"""Samples of consumer groups and of who is connected.

Lag is given for each group that committed an offset, whether it has a member or not: RocketMQ
leaves out a group that is down, just when one wants to know.  A queue in which a group committed
nothing counts as no lag.  Filters are not looked at: a message nobody wants counts until it is
passed over.  Messages that were popped and are not acknowledged count as in flight and as lag.
Offsets of the transaction check are left out.
"""

from __future__ import annotations

from collections import Counter

from flintmq.broker.monitoring import broker_families as names
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.tables.clients import ConnectedMember
from flintmq.metrics.families import Samples, Work, truth
from flintmq.model.group import TRANSACTION_GROUP, ConsumeType, is_retry_topic, is_system_group
from flintmq.model.queue import QueueOffset
from flintmq.protocol.language import language_name, language_number
from flintmq.protocol.version import version_name

REMOTING = "remoting"
_MODES = {ConsumeType.PUSH: "push", ConsumeType.PULL: "pull", ConsumeType.POP: "pop"}


class _Behind:
    """How far a group is behind in the queues of a topic."""

    __slots__ = ("in_flight", "lag", "lag_ms", "queueing_ms", "ready")

    def __init__(self) -> None:
        self.lag = self.in_flight = self.ready = self.lag_ms = self.queueing_ms = 0

    def add(
        self, state: BrokerState, group: str, topic: str, queue_id: int, offset: int, now_ms: int
    ) -> None:
        stop = state.log.max_offset(topic, queue_id)
        offset = min(max(offset, state.log.min_offset(topic, queue_id)), stop)
        pulled = min(max(state.offsets.pulled(group, topic, queue_id) or offset, offset), stop)
        self.lag += stop - offset
        self.in_flight += pulled - offset
        self.ready += stop - pulled
        if offset < stop:
            age_ms = _age_ms(state, topic, queue_id, offset, now_ms)
            self.lag_ms = max(self.lag_ms, age_ms)
            if pulled < stop:
                if pulled != offset:
                    age_ms = _age_ms(state, topic, queue_id, pulled, now_ms)
                self.queueing_ms = max(self.queueing_ms, age_ms)


def lag_samples(state: BrokerState, now_ms: int) -> Work:
    """How far every group is behind."""
    families = (
        names.LAG_MESSAGES,
        names.LAG_LATENCY,
        names.INFLIGHT,
        names.QUEUEING_LATENCY,
        names.READY_MESSAGES,
    )
    all_samples = [Samples(family) for family in families]
    popped = state.in_flight.counts()
    for topic, group in state.offsets.places():
        if group == TRANSACTION_GROUP or state.topics.find(topic) is None:
            continue
        behind = _Behind()
        behind.in_flight = behind.lag = popped.get((topic, group), 0)
        for queue_id, offset in state.offsets.queues(group, topic).items():
            if offset >= 0:
                behind.add(state, group, topic, queue_id, offset, now_ms)
            yield None
        is_system = state.topics.is_system(topic) or is_system_group(group.upper())
        labels = (group, topic, truth(is_retry_topic(topic)), truth(is_system))
        values = (
            behind.lag,
            behind.lag_ms,
            behind.in_flight,
            behind.queueing_ms,
            behind.ready,
        )
        for samples, value in zip(all_samples, values, strict=True):
            samples.add(value, *labels)
    yield from all_samples


def connection_samples(state: BrokerState) -> Work:
    """Who is connected."""
    producers = Counter(
        _language_and_version(member)
        for group in state.clients.producer_groups()
        for member in state.clients.producers(group)
    )
    yield None
    samples = Samples(names.PRODUCER_CONNECTIONS)
    for (language, version), count in producers.items():
        samples.add(count, language, version, REMOTING)
    yield samples
    samples = Samples(names.CONSUMER_CONNECTIONS)
    for found in state.clients.consumer_groups():
        mode = _MODES[found.consume_type]
        members = Counter(map(_language_and_version, found.members.values()))
        is_system = truth(is_system_group(found.group.upper()))
        for (language, version), count in members.items():
            samples.add(count, found.group, language, version, mode, REMOTING, is_system)
        yield None
    yield samples


def _language_and_version(member: ConnectedMember) -> tuple[str, str]:
    """In lower case; a language that RocketMQ does not know is ``other``: a peer may say any."""
    language = language_name(language_number(member.language))
    return language.lower(), version_name(member.version).lower()


def _age_ms(state: BrokerState, topic: str, queue_id: int, offset: int, now_ms: int) -> int:
    stored_ms = state.log.lookup.store_ms(topic, queue_id, QueueOffset(offset))
    return 0 if stored_ms is None else max(now_ms - stored_ms, 0)
