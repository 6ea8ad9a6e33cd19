"""What is fetched and compiled is made once, whole or not at all, whoever asks first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from support.interop.jvm import class_path, make_once, missing_tools


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLINTMQ_CACHE", str(tmp_path))
    return tmp_path


def test_a_missing_tool_is_named_in_the_reason() -> None:
    assert missing_tools("no-such-tool-anywhere") == "not installed: no-such-tool-anywhere"
    assert missing_tools() is None


def test_a_directory_asked_for_at_once_is_made_by_one_and_seen_whole_by_all(cache: Path) -> None:
    together = Barrier(4)
    made_by = []

    def make(directory: Path) -> None:
        made_by.append(directory)
        for number in range(50):
            (directory / str(number)).write_text("x")

    def ask() -> int:
        together.wait()
        return len(list(make_once("some/thing", make).iterdir()))

    with ThreadPoolExecutor(4) as pool:
        counts = [asked.result() for asked in [pool.submit(ask) for _ in range(4)]]

    assert counts == [50] * 4
    assert len(made_by) == 1


def test_a_failure_leaves_nothing_behind_and_the_next_try_starts_anew(cache: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "half").write_text("x")
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        make_once("thing", fail)
    made = make_once("thing", lambda directory: (directory / "all").touch())

    assert [path.name for path in made.iterdir()] == ["all"]
    assert sorted(path.name for path in cache.iterdir()) == ["thing", "thing.lock"]


def test_jars_and_classes_are_spelled_as_java_wants_them(tmp_path: Path) -> None:
    jars, classes = tmp_path / "lib", tmp_path / "classes"
    jars.mkdir()
    (jars / "a.jar").touch()
    classes.mkdir()

    assert class_path([jars, classes]) == f"{jars}/*:{classes}"
