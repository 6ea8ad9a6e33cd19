"""Whatever the network, the broker and the members do, a group consumes every message at least
once, an ordered queue in order and in one place at a time, and never commits more than is settled.

Members are `GroupConsumer` machines; the broker is the real engine.  A failure is one seed:
``pytest tests/scenarios/core/test_simulation.py -k seed-17``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.core.stories import Story

SEEDS = 50
HEAVY_SEEDS = 1_000
STOP_SEEDS = 40


@pytest.mark.parametrize("seed", range(SEEDS), ids=lambda seed: f"seed-{seed}")
def test_a_group_consumes_everything_through_all_kinds_of_trouble(
    seed: int, tmp_path: Path
) -> None:
    Story(seed, tmp_path).run()


@pytest.mark.parametrize("seed", range(STOP_SEEDS), ids=lambda seed: f"stop-{seed}")
def test_a_stop_leaves_nothing_to_be_consumed_twice_however_late_pulls_are_served(
    seed: int, tmp_path: Path
) -> None:
    story = Story(seed, tmp_path)
    story.run_in_turns()

    assert {body: times for body, times in story.truth.consumed.items() if times > 1} == {}


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_a_thousand_stories_end_well(tmp_path: Path) -> None:
    for seed in range(SEEDS, SEEDS + HEAVY_SEEDS):
        try:
            Story(seed, tmp_path / str(seed)).run()
        except BaseException:
            print(f"failing seed: {seed}")
            raise
