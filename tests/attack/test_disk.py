"""The disk is taken away, filled or locked: nothing is acknowledged that is not stored.

Findings 8 (a deleted directory counts as synced), 20 (data that everybody may read), 23 (a limit of
address space lets it start and fail later), 25 (remarks with absolute paths).
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.attack.peers import Peer, asked
from support.attack.said import PULL, SEND, pull_fields, send_fields
from support.attack.victim import MB, NotStarted, Victim, serving, until

NOT_AVAILABLE = 14
DEADLINE_S = 40.0


def acknowledged(victim: Victim, body: bytes = b"hello") -> int | None:
    """The code of a send, or None when nobody answers."""
    try:
        with Peer(victim.broker) as peer:
            heard = peer.ask(SEND, send_fields("Disk"), body)
    except OSError:
        return None
    if heard is None:
        return None
    assert str(victim.data) not in heard.remark, "the remark tells where the files are"
    return heard.code


def test_a_deleted_directory_acknowledges_nothing_and_ends_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, "--flush", "sync") as victim:
        assert acknowledged(victim) == 0
        deadline = time.monotonic() + DEADLINE_S
        while victim.data.exists():
            assert time.monotonic() < deadline
            shutil.rmtree(victim.data, ignore_errors=True)
        assert acknowledged(victim) in (NOT_AVAILABLE, None)
        assert until(lambda: not victim.is_alive(), DEADLINE_S), "it goes on without its data"
        assert victim.process.returncode != 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 MB, where one may be mounted."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except OSError as error:
        pytest.skip(f"a small disk cannot be mounted: {error}")
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True, timeout=30)


def test_a_full_disk_refuses_sends_and_recovers(small_disk: Path) -> None:
    filler = small_disk / "filler"
    with serving(small_disk, "--flush", "sync") as victim:
        assert acknowledged(victim) == 0
        with filler.open("wb") as file:
            while True:
                try:
                    file.write(bytes(256 * 1024))
                    file.flush()
                except OSError:
                    break
        codes = [acknowledged(victim, bytes(512 * 1024)) for _ in range(10)]
        assert set(codes) <= {0, NOT_AVAILABLE}, codes
        stored = codes.count(0)
        assert NOT_AVAILABLE in codes
        filler.unlink()
        assert until(lambda: acknowledged(victim) == 0, DEADLINE_S), "it does not recover"
        heard = asked(victim.broker, 202, {"topic": "Disk"})
        assert heard.code == 0
        assert victim.stop() == 0
        victim.check_store()
        assert stored < 10


def test_a_directory_that_may_not_be_written_acknowledges_nothing_unstored(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    with serving(tmp_path, "--flush", "sync") as victim:
        assert acknowledged(victim) == 0
        for path in (victim.data, *victim.data.rglob("*")):
            if path.is_dir():
                path.chmod(0o555)
        try:
            code = acknowledged(victim)
        finally:
            for path in (victim.data, *victim.data.rglob("*")):
                if path.is_dir():
                    path.chmod(0o755)
        assert code in (0, NOT_AVAILABLE)
        assert victim.stop() == 0
        victim.check_store()


def test_data_is_for_its_owner_alone(tmp_path: Path) -> None:
    with serving(tmp_path) as victim:
        assert acknowledged(victim) == 0
        assert victim.stop() == 0
        open_to_all = [
            str(path.relative_to(victim.data))
            for path in (victim.data, *victim.data.rglob("*"))
            if stat.S_IMODE(path.stat().st_mode) & 0o007
        ]
    assert open_to_all == []


def test_with_too_little_address_space_it_does_not_start_or_does_all(tmp_path: Path) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not here")
    try:
        victim = Victim(tmp_path, limit_mb=1_150)
    except NotStarted as refusal:
        said = refusal.said
    else:
        with closing(victim):
            assert acknowledged(victim, bytes(1 * MB)) == 0
            heard = asked(victim.broker, PULL, pull_fields("Disk"))
        assert heard.code == 0, heard.remark
        return
    assert "Traceback" not in said
    assert "ulimit -v" in said
