"""`flintmq store` tells what is in a directory and whether it is in order, by its exit code too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.store.real_stores import unpack_store

COMMAND = Path(sys.executable).with_name("flintmq")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def real(tmp_path: Path) -> Path:
    return unpack_store("golden-5.3.3", tmp_path)


def test_a_store_in_order_is_told_so(real: Path) -> None:
    done = run("store", "check", real)

    assert done.returncode == 0
    assert "everything agrees" in done.stdout
    assert "418 records" in done.stdout


def test_what_is_wrong_is_named_with_file_and_byte(real: Path) -> None:
    path = real / "consumequeue" / "orders" / "0" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[27] ^= 1
    path.write_bytes(content)

    done = run("store", "check", real)

    assert done.returncode == 1
    assert f"{path} at byte 20" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_check_can_be_read_by_a_program(real: Path) -> None:
    done = run("store", "check", real, "--output", "json")

    told = json.loads(done.stdout)
    assert told["good"] is True
    assert told["records"] == told["units"] == 418
    assert told["findings"] == []


def test_a_store_is_shown_as_tables(real: Path) -> None:
    done = run("store", "show", real)

    assert done.returncode == 0
    assert "events-utf8" in done.stdout
    assert "golden_pull" in done.stdout


def test_a_store_can_be_shown_to_a_program(real: Path) -> None:
    done = run("store", "show", real, "--output", "json")

    told = json.loads(done.stdout)
    queue = next(q for q in told["queues"] if q["topic"] == "events-utf8")
    assert (queue["min_offset"], queue["max_offset"]) == (0, 40)


@pytest.mark.parametrize("command", ["check", "show"])
def test_what_is_no_store_is_refused_in_one_sentence(command: str, tmp_path: Path) -> None:
    done = run("store", command, tmp_path / "nothing here")

    assert done.returncode == 2
    assert "is no directory" in done.stderr
    assert "Traceback" not in done.stderr
