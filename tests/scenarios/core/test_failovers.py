"""Through stops, kills and promotions nothing acknowledged is lost, and everything is consumed.

A master, its slave, producers and a group, by a seed; `support/replication/failover_story.py` says
what must hold.  A failure is one seed: ``pytest tests/scenarios/core/test_failovers.py -k seed-7``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.replication.failover_story import FailoverStory

SEEDS = 20


@pytest.mark.parametrize("seed", range(SEEDS), ids=lambda seed: f"seed-{seed}")
def test_a_pair_loses_nothing_that_it_acknowledged(seed: int, tmp_path: Path) -> None:
    FailoverStory(seed, tmp_path).run()
