"""What a simple consumer is at, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.pop.simple_pop import SimplePop


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """One broker of a topic.  ``trouble`` is the last error, empty when it answers."""

    topic: str
    broker: str
    is_asked: bool
    """Whether a pop is under way there, or held."""
    trouble: str


@dataclass(frozen=True, slots=True)
class SimpleStatus:
    """All of a simple consumer.  ``troubles`` are topics that no name server knows."""

    group: str
    client_id: str
    state: str
    sources: tuple[SourceStatus, ...]
    buffered_count: int
    """Messages that came and that nobody has asked for yet."""
    held_count: int
    """Receipts of messages that are not acknowledged."""
    troubles: Mapping[str, str]
    bad_count: int
    """Records that could not be decoded, since the start."""


def simple_status(
    group: str,
    engine: ClientEngine,
    machine: SimplePop,
    held_count: int,
    troubles: Mapping[str, str],
) -> SimpleStatus:
    return SimpleStatus(
        group,
        engine.client_id,
        engine.state.value,
        tuple(
            SourceStatus(engine.user_name(source.topic), source.broker, is_asked, trouble)
            for source, is_asked, trouble in machine.sources()
        ),
        machine.buffered_count,
        held_count,
        troubles,
        machine.bad_count,
    )
