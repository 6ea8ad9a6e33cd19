"""A program that is only connected exchanges files with the driver's machine, and no others."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import LocalProtocolError
from flintmq.spark.listeners.listener_run import Run
from flintmq.spark.listeners.run_place import PREFIX, Access, ControlReader, RemoteFiles, act
from flintmq.spark.source import control_files as names
from flintmq.spark.source.control_files import ControlFiles


class Server:
    """A session of Spark Connect as `RemoteFiles` uses it; the server plans each read twice."""

    def __init__(self) -> None:
        self.is_up = True
        self.asked: list[str] = []
        self._options: dict[str, str] = {}

    @property
    def read(self) -> Server:
        return self

    def format(self, _name: str) -> Server:
        return self

    def options(self, **options: Any) -> Server:
        self._options = {name: str(value) for name, value in options.items()}
        return self

    def load(self) -> Server:
        return self

    def collect(self) -> list[tuple[str]]:
        self.asked.append(self._options["do"])
        if not self.is_up:
            raise OSError("UNAVAILABLE")
        reader = ControlReader(self._options)
        reader.partitions()
        (answer,) = reader.partitions()
        return list(reader.read(answer))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def remote_files(server: Server) -> RemoteFiles:
    return RemoteFiles(server, f"{PREFIX}1")  # type: ignore[arg-type]


def test_both_sides_see_the_same_files_until_they_are_removed(temporary: Path) -> None:
    files = remote_files(Server())
    place = Path(files.open())
    there = ControlFiles(str(place))
    assert place.parent == temporary
    assert place.stat().st_mode & 0o777 == 0o700

    files.write(names.FINISHED, {"n": 3})
    there.write(names.MEMBER, {"client_id": "c"})

    assert there.newly_finished() == {"n": 3}
    assert files.read(names.MEMBER) == {"client_id": "c"}
    assert (files.has(names.MEMBER), files.has(names.LEFT)) == (True, False)
    files.close()
    assert not place.exists()
    assert files.read(names.MEMBER) is None


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("elsewhere", names.LEFT),
        (f"{PREFIX}1/../elsewhere", names.LEFT),
        (f"../{PREFIX}1", names.LEFT),
        (f"{PREFIX}1", "../secret"),
        (f"{PREFIX}1", ".."),
        (f"{PREFIX}1", "/etc/passwd"),
    ],
)
@pytest.mark.parametrize("do", Access)
def test_nothing_but_control_files_is_touched(
    temporary: Path, do: Access, directory: str, name: str
) -> None:
    (temporary / "elsewhere").mkdir()
    with pytest.raises(LocalProtocolError):
        act(do, directory, name, "null")
    assert [each.name for each in temporary.iterdir()] == ["elsewhere"]


class LostQuery:
    """A query whose server has ended: every question fails, after minutes."""

    id = "1"

    @property
    def isActive(self) -> bool:  # noqa: N802  # Spark's name
        raise OSError("UNAVAILABLE")

    def awaitTermination(self, _timeout_s: int) -> None:  # noqa: N802
        raise OSError("UNAVAILABLE")


def test_a_server_that_is_lost_is_asked_no_more(temporary: Path) -> None:
    server = Server()
    files, cleanup = remote_files(server), ExitStack()
    files.open()
    cleanup.callback(files.close)
    server.is_up = False
    server.asked.clear()
    run = Run("group", LostQuery(), files, cleanup, progress=False, plot=None)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="UNAVAILABLE"):
        run.await_termination(60)
    assert server.asked == []
