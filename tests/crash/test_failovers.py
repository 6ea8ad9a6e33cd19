"""A thousand stories of a master, its slave, producers and a group, each with another seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.replication.failover_story import FailoverStory

pytestmark = pytest.mark.heavy

TOGETHER = 50


@pytest.mark.parametrize("first", range(1_000, 2_000, TOGETHER))
def test_pairs_lose_nothing_that_they_acknowledged(tmp_path: Path, first: int) -> None:
    promotions = lossy = mismatches = 0
    for seed in range(first, first + TOGETHER):
        story = FailoverStory(seed, tmp_path / str(seed))
        try:
            story.run()
        except BaseException:
            print(f"failing seed: {seed}")
            raise
        promotions += story.promotions
        lossy += story.lossy
        mismatches += story.broker.link.mismatches

    assert promotions > TOGETHER // 2
    assert lossy > 0, "no slave was ever behind when its master was lost"
    assert mismatches > 0, "nothing was ever disturbed"
