"""The layout is RocketMQ's: names, sizes and examples of its files, to the byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flintmq.store.files.layout import (
    FILL_UNIT,
    UNIT,
    UNIT_STRUCT,
    file_name,
    file_start,
    index_file_bytes,
    queue_directory,
)


def test_a_file_is_named_by_its_first_byte() -> None:
    assert file_name(6_000_000) == "00000000000006000000"
    assert file_start("00000000000006000000") == 6_000_000


@pytest.mark.parametrize(
    "name", ["", "6000000", "0000000000000600000x", "\u0660" * 20, "-" + "0" * 19]
)
def test_other_names_are_no_files_of_ours(name: str) -> None:
    assert file_start(name) is None


def test_a_unit_is_20_bytes_big_endian() -> None:
    unit = UNIT_STRUCT.pack(1024, 104, 2598919)

    assert unit.hex(" ", 4) == "00000000 00000400 00000068 00000000 0027a807"
    assert np.frombuffer(unit, UNIT)[0].item() == (1024, 104, 2598919)


def test_a_fill_unit_points_nowhere_with_the_largest_size() -> None:
    assert np.frombuffer(FILL_UNIT, UNIT)[0].item() == (0, 0x7FFFFFFF, 0)


def test_an_index_file_of_rocketmqs_size_has_420_million_bytes() -> None:
    assert index_file_bytes(5_000_000, 20_000_000) == 420_000_040


def test_a_queue_has_a_directory_of_its_own() -> None:
    assert queue_directory(Path("q"), "%RETRY%g", 3) == Path("q/%RETRY%g/3")
