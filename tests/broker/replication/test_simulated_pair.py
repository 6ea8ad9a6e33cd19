"""Whatever happens to the connection and to a slave, its log becomes that of its master.

`make crash` runs a thousand seeds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.replication.simulated_pair import run_seed


@pytest.mark.parametrize("seed", range(20))
def test_a_slave_ends_with_its_masters_log(tmp_path: Path, seed: int) -> None:
    run_seed(tmp_path, seed)
