"""`flintmq store` tells what is in a directory and whether it is in order, by its exit code too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flintmq.cli.all_commands import app
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from support.broker.popping import ack, pop, pop_world, saved, send
from support.store.real_stores import unpack_store


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def real(tmp_path: Path) -> Path:
    return unpack_store("golden-5.3.3", tmp_path)


def test_a_store_in_order_is_told_so(real: Path) -> None:
    done = run("store", "check", real)

    assert done.exit_code == 0
    assert "everything agrees" in done.stdout
    assert "418 records" in done.stdout


def test_what_is_wrong_is_named_with_file_and_byte(real: Path) -> None:
    path = real / "consumequeue" / "orders" / "0" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[27] ^= 1
    path.write_bytes(content)

    done = run("store", "check", real)

    assert done.exit_code == 1
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

    assert done.exit_code == 0
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

    assert done.exit_code == 2
    assert "is no directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_messages_are_moved_aside_and_nothing_is_deleted(real: Path) -> None:
    before = {path.name: path.read_bytes() for path in (real / "commitlog").iterdir()}

    done = run("store", "set-aside", real, "--yes")

    assert done.exit_code == 0, done.output
    (aside,) = real.glob("aside-*")
    assert str(aside) in done.stdout
    after = {path.name: path.read_bytes() for path in (aside / "commitlog").iterdir()}
    assert after == before
    assert run("store", "check", aside).exit_code == 0
    assert not (real / "commitlog").exists()
    assert (real / "config" / "topics.json").exists()
    log = MessageLog.open(real, StoreConfig(), process_id=1)
    assert log.raw.is_empty
    assert list(log.queues()) == []
    log.close()


def test_a_store_that_a_broker_has_open_is_not_touched(real: Path) -> None:
    log = MessageLog.open(real, StoreConfig(), process_id=1)
    holder = subprocess.run(
        [sys.executable, "-m", "flintmq", "store", "set-aside", str(real), "--yes"],
        capture_output=True,
        text=True,
        check=False,
    )
    log.close()

    assert holder.returncode == 2
    assert "locked" in holder.stderr
    assert list(real.glob("aside-*")) == []
    assert (real / "commitlog").exists()


def test_nothing_is_moved_without_a_yes(real: Path) -> None:
    done = CliRunner().invoke(app, ["store", "set-aside", str(real)], input="n\n")

    assert done.exit_code == 1
    assert (real / "commitlog").exists()


def test_check_and_show_tell_of_messages_in_flight(tmp_path: Path) -> None:
    world = pop_world(tmp_path / "store")
    send(world, b"0", b"1", b"2")
    popped = pop(world)
    ack(world, popped.handles[1])
    saved(world)
    world.stop()

    checked = CliRunner().invoke(app, ["store", "check", str(tmp_path / "store"), "--json"])
    assert checked.exit_code == 0, checked.output
    assert json.loads(checked.stdout)["messages_in_flight"] == 2
    shown = CliRunner().invoke(app, ["store", "show", str(tmp_path / "store"), "--json"])
    (listed,) = json.loads(shown.stdout)["popped"]
    due_ms = popped.handles[0].expires_ms
    assert listed == {"group": "G", "topic": "T", "messages": 2, "next_due_ms": due_ms}
