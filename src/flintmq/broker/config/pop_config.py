"""The settings of pop consumption."""

from __future__ import annotations

from dataclasses import dataclass

from flintmq.protocol.bodies.pop import POP_MODE, PULL_MODE

MODES = (PULL_MODE, POP_MODE)


def read_mode(text: str) -> str:
    """A mode by its name.  Raises `ValueError`."""
    if text.upper() not in MODES:
        raise ValueError("it must be " + " or ".join(MODES))
    return text.upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class PopConfig:
    """How pops are served."""

    retry_topic_v2: bool = False
    """Messages come back through ``%RETRY%group+topic``; both kinds are read in any case."""
    retry_first_percent: int = 20
    """How many of a hundred pops look at the retry topic first."""
    holds_per_key_max: int = 1_024
    """Pops of one topic, group and queue that may be held at once …"""
    holds_max: int = 100_000
    """… and all of them."""
    revive_queues: int = 8
    """Queues of the revive topic."""
    default_mode: str = PULL_MODE
    """How a group takes a topic where nobody said it."""
    default_share: int = 0
    """Members whose queues one takes beside its own, in that mode; 0: all queues are for all."""
    assigns_queues: bool = True
    """Whether QUERY_ASSIGNMENT (400) shares queues out; else everybody gets all."""

    def __post_init__(self) -> None:
        if self.default_mode not in MODES:
            raise ValueError("default_mode must be PULL or POP")
        if not 0 <= self.retry_first_percent <= 100:
            raise ValueError("retry_first_percent must be 0 to 100")
        for name in ("holds_per_key_max", "holds_max", "revive_queues"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be > 0")
