"""The HA stream of a real master, cut after every single byte, makes the real slave's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.replication.cut_streams import run_with_cuts
from support.replication.ha_sessions import RELEASES, ha_session

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("release", RELEASES)
def test_a_session_cut_at_every_byte_ends_with_the_same_files(tmp_path: Path, release: str) -> None:
    run_with_cuts(tmp_path, ha_session(release), 1)
