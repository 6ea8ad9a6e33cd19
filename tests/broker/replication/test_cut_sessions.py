"""A slave that loses its connection after any byte of a real session ends with the master's log.

The captured bytes of real masters are sent to our slave's machine and store; after each cut a new
connection goes on from what the slave reports.  `make crash` cuts at every byte.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.replication.cut_streams import run_with_cuts
from support.replication.ha_sessions import RELEASES, ha_session

FEW = 1_499
"""Bytes between two cuts: the places differ from frame to frame."""


@pytest.mark.parametrize("release", RELEASES)
def test_a_session_cut_at_many_places_ends_with_the_same_files(
    tmp_path: Path, release: str
) -> None:
    run_with_cuts(tmp_path, ha_session(release), FEW)
