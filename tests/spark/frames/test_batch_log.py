"""The checkpoint of a loop: what was planned is found again, and one loop has it at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.errors import InvalidSetting, WrongState
from flintmq.spark.frames.batch_log import KEPT, Planned, open_log


def test_the_last_batch_is_found_and_whether_it_is_finished(tmp_path: Path) -> None:
    with open_log(tmp_path / "new") as log:
        assert log.last() is None
        log.plan(0, {"v": 1})
        log.finish(0)
        log.plan(1, {"v": 2})

    with open_log(f"file://{tmp_path}/new") as log:
        assert log.last() == Planned(1, {"v": 2}, is_finished=False)
        log.finish(1)
        assert log.last() == Planned(1, {"v": 2}, is_finished=True)


def test_a_file_that_was_being_written_does_not_count(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.plan(0, {"v": 1})
        (tmp_path / "offsets" / ".1").write_text('{"v')

        assert log.last() == Planned(0, {"v": 1}, is_finished=False)


def test_old_batches_are_removed(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        for number in range(KEPT + 5):
            log.plan(number, {})
            log.finish(number)

    for directory in ("offsets", "commits"):
        assert len(list((tmp_path / directory).iterdir())) == KEPT


def test_one_loop_has_a_checkpoint_at_a_time(tmp_path: Path) -> None:
    with (
        open_log(tmp_path),
        pytest.raises(WrongState, match="one at a time"),
        open_log(tmp_path),
    ):
        pass
    with open_log(tmp_path):
        pass


@pytest.mark.parametrize("place", ["hdfs://host/c", "s3://bucket/c", "hdfs:/c"])
def test_a_checkpoint_elsewhere_is_refused(place: str) -> None:
    with pytest.raises(InvalidSetting, match="this machine"), open_log(place):
        pass


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.plan(0, {})
        (tmp_path / "offsets" / "0").write_text("{")

        with pytest.raises(InvalidSetting, match=r"offsets/0 cannot be read"):
            log.last()
