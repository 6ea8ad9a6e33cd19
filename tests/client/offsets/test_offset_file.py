"""The offset file is RocketMQ's own, survives a crash at any moment, and stays in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.client.offsets.offset_file import (
    DIRECTORY_VARIABLE,
    offsets_path,
    read_offsets,
    write_offsets,
)
from flintmq.errors import DiskFailed, InvalidName, InvalidSetting, StoreRefused
from flintmq.model.queue import QueueOffset, QueueRef

QUEUE = QueueRef("OrderTopic", "broker-a", 0)

OF_JAVA = b"""{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"OrderTopic"
\t\t}:120
\t}
}"""


def offsets(number: int) -> dict[QueueRef, QueueOffset]:
    return {QUEUE: QueueOffset(number)}


def test_it_is_where_rocketmq_keeps_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)

    usual = offsets_path("10.0.0.1@DEFAULT", "billing")
    monkeypatch.setenv(DIRECTORY_VARIABLE, "/var/offsets")
    by_environment = offsets_path("10.0.0.1@DEFAULT", "billing")
    by_argument = offsets_path("10.0.0.1@DEFAULT", "billing", "/tmp/offsets")

    rest = "10.0.0.1@DEFAULT/billing/offsets.json"
    assert usual == tmp_path / ".rocketmq_offsets" / rest
    assert by_environment == Path("/var/offsets") / rest
    assert by_argument == Path("/tmp/offsets") / rest


@pytest.mark.parametrize("client_id", ["", ".", "..", "../x", "a/b", "a\\b", "a\0b"])
def test_a_client_id_cannot_lead_elsewhere(client_id: str) -> None:
    with pytest.raises(InvalidSetting):
        offsets_path(client_id, "billing")


def test_a_group_cannot_lead_elsewhere() -> None:
    with pytest.raises(InvalidName):
        offsets_path("c1", "../x")


def test_what_java_wrote_is_read_and_written_alike(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_bytes(OF_JAVA)

    found = read_offsets(path)
    write_offsets(path, found)

    assert found == offsets(120)
    assert path.read_bytes() == OF_JAVA


def test_what_was_there_before_becomes_the_backup(tmp_path: Path) -> None:
    path = tmp_path / "c1" / "billing" / "offsets.json"

    write_offsets(path, offsets(1))
    write_offsets(path, offsets(2))

    assert read_offsets(path) == offsets(2)
    assert read_offsets(path.with_name("offsets.json.bak")) == offsets(1)
    assert sorted(found.name for found in path.parent.iterdir()) == [
        "offsets.json",
        "offsets.json.bak",
    ]


@pytest.mark.parametrize("content", [b"", b" \n", b"{", OF_JAVA[:40], None])
def test_a_file_that_is_not_whole_is_made_up_for_by_its_backup(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "offsets.json"
    write_offsets(path, offsets(1))
    write_offsets(path, offsets(2))
    if content is None:  # a crash between the two renames
        path.unlink()
    else:
        path.write_bytes(content)

    assert read_offsets(path) == offsets(1)


def test_a_broken_file_does_not_become_the_backup(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    write_offsets(path, offsets(1))
    write_offsets(path, offsets(2))
    path.write_bytes(b"{")

    write_offsets(path, offsets(3))
    path.write_bytes(b"{")

    assert read_offsets(path) == offsets(1)


def test_no_file_is_no_offsets(tmp_path: Path) -> None:
    assert read_offsets(tmp_path / "offsets.json") == {}


def test_two_broken_files_are_not_taken_for_none(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_bytes(b"{")
    path.with_name("offsets.json.bak").write_bytes(b"")

    with pytest.raises(StoreRefused, match="remove both") as caught:
        read_offsets(path)

    assert caught.value.path == str(path)


def test_an_enormous_file_is_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "offsets.json"
    path.write_bytes(OF_JAVA)
    monkeypatch.setattr("flintmq.client.offsets.offset_file.FILE_BYTES_MAX", 10)

    with pytest.raises(StoreRefused, match="larger than 10"):
        read_offsets(path)


def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "dir.json").mkdir()

    with pytest.raises(DiskFailed, match="write"):
        write_offsets(tmp_path / "file" / "offsets.json", offsets(1))
    with pytest.raises(DiskFailed, match="read"):
        read_offsets(tmp_path / "dir.json")


def test_the_file_and_its_directories_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "offsets" / "client" / "group" / "offsets.json"
    write_offsets(path, offsets(1))
    write_offsets(path, offsets(2))

    modes = {each.stat().st_mode & 0o777 for each in (path, path.with_name("offsets.json.bak"))}

    assert modes == {0o600}
    assert {each.stat().st_mode & 0o777 for each in list(path.parents)[:3]} == {0o700}
