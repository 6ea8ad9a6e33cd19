"""Tables never cut what people copy: ids, client ids, names, times."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from flintmq.cli.shared.tables import MISSING, Wrapped, print_fields, print_table

ID = "C0A80001000078BFC0A8000100000000"
HEAD = ("stored at", "queue", "id", Wrapped("body"))
ROW = ("2026-11-16 08:30:00.000", 12, ID, "the quick brown fox " * 6)


def drawn(width: int, rows: list[tuple[object, ...]]) -> list[str]:
    """The lines a terminal of this width gets."""
    return printed(width, HEAD, rows).splitlines()


def printed(width: int, head: Sequence[str], rows: list[tuple[object, ...]]) -> str:
    terminal = Console(
        file=io.StringIO(), width=width, force_terminal=True, color_system=None, highlight=False
    )
    print_table(head, rows, terminal)
    assert isinstance(terminal.file, io.StringIO)
    return terminal.file.getvalue()


def test_nothing_is_wrapped_where_stdout_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")

    print_table(HEAD, [ROW])

    head, rule, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["stored", "at", "queue", "id", "body"]
    assert set(rule) == {"─"}
    assert row.split("  ")[-1].strip() == str(ROW[3]).strip()


def test_a_wrapped_column_gives_way_and_the_others_stay_whole() -> None:
    lines = drawn(90, [ROW])

    assert max(map(len, lines)) <= 90
    assert ID in lines[2]
    assert str(ROW[0]) in lines[2]
    assert len(lines) > 3


def test_what_is_too_wide_for_a_terminal_is_a_block_for_each_row() -> None:
    lines = drawn(60, [ROW, ROW])

    assert lines[:3] == ["stored at  2026-11-16 08:30:00.000", "queue      12", f"id         {ID}"]
    assert lines.count(f"id         {ID}") == 2


def test_numbers_go_to_the_right_and_a_missing_value_is_a_dash() -> None:
    head, _, first, second = drawn(120, [("now", 5, "a", "b"), ("now", 12345, "a", None)])

    assert first.index("5") == second.index("12345") + 4 == head.index("queue") + 4
    assert second.split()[-1] == MISSING


def test_a_rate_has_one_decimal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("out/s",), [(12.3456,)])

    assert capsys.readouterr().out.split()[-1] == "12.3"


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=50), min_size=3, max_size=3))
def test_every_cell_is_found_in_what_is_printed(texts: list[str]) -> None:
    """Whatever the width: a cell that may not be wrapped stands there in one piece."""
    head = ("one", "two", "three")
    for width in (20, 80, 200):
        shown = printed(width, head, [tuple(texts)])
        for text in texts:
            if text.isprintable():
                assert text.rstrip() in shown


def test_fields_of_one_thing_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields([("message id", ID), ("tag", None), ("property [x]", "a\x1b[2J")])

    assert capsys.readouterr().out.splitlines() == [
        f"message id    {ID}",
        f"tag           {MISSING}",
        "property [x]  a\\x1b[2J",
    ]
