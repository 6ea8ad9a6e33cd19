"""A thousand simulated pairs of master and slave, each with another seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.replication.simulated_pair import run_seed

pytestmark = pytest.mark.heavy

TOGETHER = 50


@pytest.mark.parametrize("first", range(1_000, 2_000, TOGETHER))
def test_slaves_end_with_their_masters_logs(tmp_path: Path, first: int) -> None:
    mismatches = 0
    for seed in range(first, first + TOGETHER):
        mismatches += run_seed(tmp_path / str(seed), seed)

    assert mismatches > 0, "nothing was ever disturbed"
