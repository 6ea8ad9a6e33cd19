"""Dead letters are counted by topic, reason and day, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.errors import MissingExtra
from flintmq.reports.dead_letter_count import CountedLetter, count_dead_letters
from flintmq.reports.dead_letter_figures import same_words_text

DAY_MS = 86_400_000


def test_the_largest_groups_come_first() -> None:
    letters = [
        CountedLetter("orders", "no order", 3, 5),
        CountedLetter("orders", "no order", 16, 7),
        CountedLetter(None, "no order", 3, DAY_MS),
    ]

    found = count_dead_letters("billing", letters)

    assert (found.messages, found.left_out) == (3, 0)
    first, second = found.groups
    assert (first.topic, first.messages, first.tries_max) == ("orders", 2, 16)
    assert (first.day, first.first_ms, first.last_ms) == ("1970-01-01", 5, 7)
    assert (second.topic, second.day) == (None, "1970-01-02")


def test_a_group_without_dead_letters_has_an_empty_report() -> None:
    assert count_dead_letters("billing", []).table().rows == ()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("no order 4711", "no order #"),
        ("KeyError: 'a'\nTraceback", "KeyError: 'a'"),
        ("id C0000202593DF4924FC257225E350001 is gone", "id # is gone"),
        ("  deadbeef is a word ", "deadbeef is a word"),
        ("x" * 300, "x" * 200),
    ],
)
def test_errors_that_differ_in_numbers_are_the_same_reason(error: str, words: str) -> None:
    assert same_words_text(error) == words


def test_a_report_is_written_as_tables_and_a_picture(tmp_path: Path) -> None:
    letters = [CountedLetter("orders", "no order", 3, DAY_MS), CountedLetter(None, "x", 1, DAY_MS)]

    files = count_dead_letters("billing", letters).write(str(tmp_path))

    assert {path.name for path in files} == {
        *("dead_letters.csv", "dead_letters.parquet", "dead_letters.png")
    }
    assert all(path.stat().st_size for path in files)


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flintmq.reports.dead_letter_figures.find_spec", lambda _: None)

    with pytest.raises(MissingExtra, match=r"flintmq\[arrow\]"):
        count_dead_letters("billing", []).write(str(tmp_path))
