"""A victim, a client that behaves beside it, and attacks with limits.

    with arena.attack("idle connections", cpu_s=3, grow_mb=150):
        ...

A limit of latency is the larger of a factor over the same client without an attack, in the same
run, and a time that nobody calls an outage; and it is raised by what the machine itself was late.
So noise moves the limit with it, while the findings were tens of times above it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.attack.beside import Beside, Felt
from support.attack.victim import Victim, until

QUIET_ROUNDS = 250
ROUNDS_MIN = 30
"""Rounds of the client beside that an attack must leave it, however short the attack is."""

ROUNDS_S = 60.0
FACTOR = 10
P50_CAP_MS = 60.0
P99_CAP_MS = 1_000.0
"""A turn of the loop has some milliseconds for anybody; a second is what clients notice."""

LATE_FACTOR = 10
BACK_S = 45.0
"""How long memory may take to come back: a collection, and what the system is asked to take."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    attack: str
    cpu_s: float
    before_mb: float
    peak_mb: float
    after_mb: float
    felt: Felt
    quiet: Felt


class Arena:
    """One victim with a client beside it, for the attacks of one family."""

    def __init__(self, directory: Path, rows: list[Row], *options: str | Path) -> None:
        self._rows = rows
        self.victim = Victim(directory, *options)
        try:
            self._beside = Beside(self.victim.namesrv)
        except BaseException:
            self.victim.close()
            raise
        self._beside.mark()
        cpu_s = self.victim.cpu_s()
        assert until(lambda: self._beside.rounds() >= QUIET_ROUNDS, ROUNDS_S)
        self._quiet = self._beside.mark()
        self._round_cpu_s = (self.victim.cpu_s() - cpu_s) / self._quiet.rounds

    @property
    def broker(self) -> str:
        return self.victim.broker

    @property
    def namesrv(self) -> str:
        return self.victim.namesrv

    @property
    def grpc(self) -> str:
        return self.victim.grpc

    @contextmanager
    def attack(
        self, name: str, *, cpu_s: float, grow_mb: float = 100.0, keep_mb: float = 50.0
    ) -> Iterator[None]:
        """The block is the attack; what it may cost is judged when it is over.

        ``cpu_s`` is what it may cost beyond the client's own rounds, ``grow_mb`` what memory may
        grow meanwhile, and ``keep_mb`` what may be left of that afterwards.
        """
        victim = self.victim
        self._beside.mark()
        before_mb, start_cpu_s = victim.memory_mb(), victim.cpu_s()
        with victim.peak() as peak:
            yield
            assert victim.is_alive(), victim.log()[-3_000:].decode(errors="replace")
            stalled = not until(lambda: self._beside.rounds() >= ROUNDS_MIN, ROUNDS_S)
            felt = self._beside.mark()
            cost_s = victim.cpu_s() - start_cpu_s - felt.rounds * self._round_cpu_s
        until(lambda: victim.memory_mb() <= before_mb + keep_mb, BACK_S)
        after_mb = victim.memory_mb()
        self._rows.append(Row(name, cost_s, before_mb, peak(), after_mb, felt, self._quiet))
        assert not stalled, f"{felt.rounds} rounds in {ROUNDS_S} s"
        assert felt.failed == 0, felt
        assert cost_s <= cpu_s, f"{cost_s:.1f} s of CPU"
        assert peak() - before_mb <= grow_mb, f"grew by {peak() - before_mb:.0f} MB"
        assert after_mb - before_mb <= keep_mb, f"kept {after_mb - before_mb:.0f} MB"
        self._check_latency(felt)
        victim.check_log()

    def end(self) -> None:
        """Nothing acknowledged is lost, SIGTERM ends the victim, its store is in order."""
        try:
            assert self.victim.is_alive()
            told = self._beside.end()
            assert told["lost"] == 0, told
            assert self.victim.stop() == 0, self.victim.log()[-3_000:].decode(errors="replace")
            self.victim.check_log()
            self.victim.check_store()
        finally:
            self._beside.close()
            self.victim.close()

    def _check_latency(self, felt: Felt) -> None:
        noise_ms = LATE_FACTOR * felt.late_ms
        p50_ms = max(P50_CAP_MS, FACTOR * self._quiet.p50_ms) + noise_ms
        p99_ms = max(P99_CAP_MS, FACTOR * self._quiet.p99_ms) + noise_ms
        assert felt.p50_ms <= p50_ms, f"{felt} beside {self._quiet}"
        assert felt.p99_ms <= p99_ms, f"{felt} beside {self._quiet}"


def table(rows: list[Row], elapsed_s: float) -> Iterator[str]:
    """What is printed at the end."""
    wide = max((len(row.attack) for row in rows), default=0)
    yield (
        f"{'attack':{wide}}  {'CPU s':>6}  {'memory MB before/peak/after':>27}"
        f"  {'p50/p99 ms beside':>17}  {'without':>13}"
    )
    for row in rows:
        memory = f"{row.before_mb:.0f} / {row.peak_mb:.0f} / {row.after_mb:.0f}"
        felt = f"{row.felt.p50_ms:.1f} / {row.felt.p99_ms:.1f}"
        quiet = f"{row.quiet.p50_ms:.1f} / {row.quiet.p99_ms:.1f}"
        yield f"{row.attack:{wide}}  {row.cpu_s:6.1f}  {memory:>27}  {felt:>17}  {quiet:>13}"
    yield f"{len(rows)} attacks in {elapsed_s:.0f} s"


def now_s() -> float:
    return time.monotonic()
