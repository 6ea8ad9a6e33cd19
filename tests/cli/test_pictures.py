"""The most used commands look on a terminal as they did when somebody last looked at them."""

from __future__ import annotations

import pytest

from capture_terminal import WIDTHS, path_of, pictures

WRITE_AGAIN = "look at it, then: PYTHONPATH=tests python tools/capture_terminal.py"


@pytest.mark.timeout(400)  # it starts thirteen programs
@pytest.mark.parametrize("width", WIDTHS)
def test_a_terminal_shows_what_is_kept(width: int) -> None:
    kept = path_of(width).read_text(encoding="utf-8")

    assert pictures(width).splitlines() == kept.splitlines(), WRITE_AGAIN


@pytest.mark.parametrize("width", WIDTHS)
def test_no_id_and_no_time_is_broken(width: int) -> None:
    """An id stands whole in a line, and nothing is cut off with an ellipsis."""
    kept = path_of(width).read_text(encoding="utf-8")

    assert kept.count("C0A80001000078BFC0A8000100000000") >= 5
    assert kept.count("192.0.2.7@shop") >= 1
    assert "12:34:56.789" in kept
    assert "…" not in kept
    assert max(map(len, kept.splitlines())) <= width
