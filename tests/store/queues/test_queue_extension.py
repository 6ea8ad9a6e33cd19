"""Extension units come back from the address they were given, and only from there.

Judges: the extension files of real brokers, to the byte, and a dictionary as a model.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flintmq.errors import DiskFailed
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import EXTENSION_ADDRESS_ZERO
from flintmq.store.queues.queue_extension import ExtensionUnit, QueueExtension, is_address
from support.store.real_stores import EXTENDED, setting, stored_messages, unpack_store
from support.store.refusing_disk import RefusingDisk

FILE_BYTES = 100
ZERO = EXTENSION_ADDRESS_ZERO


def extension_at(
    path: Path, disk: Disk | None = None, *, last: int | None = None
) -> QueueExtension:
    extension = QueueExtension(disk or Disk(), path / "T" / "0", FILE_BYTES)
    assert extension.load() == []
    extension.truncate_after(last)
    return extension


def add(extension: QueueExtension, *units: ExtensionUnit) -> list[int]:
    addresses = [extension.stage(*unit) for unit in units]
    extension.write()
    extension.advance()
    return addresses


def unit(number: int, map_bytes: int = 0) -> ExtensionUnit:
    return ExtensionUnit(number, number * 1000, bytes([number] * map_bytes))


# Real files


@pytest.mark.parametrize("name", EXTENDED)
def test_every_unit_of_a_real_store_is_read(name: str, tmp_path: Path) -> None:
    root = unpack_store(name, tmp_path) / "consumequeue_ext"
    file_bytes = setting(name, "mappedFileSizeConsumeQueueExt")
    count = 0
    for message in stored_messages(name):
        path = root / message["topic"] / str(message["queueId"])
        extension = QueueExtension(Disk(), path, file_bytes)
        assert extension.load() == []

        found = extension.read(message["tagsCodeField"])

        assert message["tagsCodeField"] == ZERO + message["extOffset"]
        assert found == ExtensionUnit(
            message["extTagsCode"], message["storeTimestamp"], bytes.fromhex(message["bitMap"])
        )
        count += 1
    assert count == 125


@pytest.mark.parametrize("name", EXTENDED)
@pytest.mark.parametrize("per_turn", [1, 7, 1_000])
def test_the_same_units_give_the_same_files(name: str, per_turn: int, tmp_path: Path) -> None:
    root = unpack_store(name, tmp_path) / "consumequeue_ext"
    file_bytes = setting(name, "mappedFileSizeConsumeQueueExt")
    messages = [m for m in stored_messages(name) if m["topic"] == "filtered"]
    ours = QueueExtension(Disk(), tmp_path / "ours", file_bytes)

    for start in range(0, len(messages), per_turn):
        for message in messages[start : start + per_turn]:
            bit_map = bytes.fromhex(message["bitMap"])
            address = ours.stage(message["extTagsCode"], message["storeTimestamp"], bit_map)
            assert address == message["tagsCodeField"]
        ours.write()
        ours.advance()

    theirs = {path.name: path.read_bytes() for path in (root / "filtered" / "0").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "ours").iterdir()} == theirs
    assert len(theirs) == 4


@pytest.mark.parametrize("name", EXTENDED)
def test_a_real_file_goes_on_where_it_ended(name: str, tmp_path: Path) -> None:
    root = unpack_store(name, tmp_path) / "consumequeue_ext"
    last = [m for m in stored_messages(name) if m["topic"] == "plain-ext"][-1]
    stop = last["extOffset"] + 20 + len(last["bitMap"]) // 2
    told = QueueExtension(Disk(), root / "plain-ext" / "0", 1024)
    told.load()
    told.truncate_after(last["tagsCodeField"])
    walked = QueueExtension(Disk(), root / "plain-ext" / "0", 1024)
    walked.load()

    assert told.stage(1, 2, b"") == walked.stage(1, 2, b"") == ZERO + stop


# Addresses


def test_an_address_is_below_every_tags_code() -> None:
    assert [is_address(code) for code in (0, 2**31, -(2**31), -(2**31) - 1, ZERO)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert ZERO + 40 == -9223372036854775768  # the worked example of the format


def test_a_unit_that_would_touch_the_last_four_bytes_goes_to_the_next_file(tmp_path: Path) -> None:
    extension = extension_at(tmp_path)

    addresses = add(extension, unit(1, 20), unit(2, 36), unit(3), unit(4, 56))

    assert [address - ZERO for address in addresses] == [0, 40, 100, 120]
    assert (tmp_path / "T" / "0" / f"{0:020d}").read_bytes()[96:] == b"\xff\xff\0\0"
    assert extension.read(addresses[1]) == unit(2, 36)


def test_the_end_mark_stands_where_the_next_unit_did_not_fit(tmp_path: Path) -> None:
    extension = extension_at(tmp_path)

    add(extension, unit(1, 30), unit(2, 40))

    assert (tmp_path / "T" / "0" / f"{0:020d}").read_bytes()[50:] == b"\xff\xff" + bytes(48)


def test_a_unit_too_large_for_any_file_leaves_the_plain_tags_code(tmp_path: Path) -> None:
    extension = extension_at(tmp_path)
    large = QueueExtension(Disk(), tmp_path / "large", 1 << 20)

    assert extension.stage(77, 0, bytes(77)) == 77
    assert extension.stage(77, 0, bytes(76)) == ZERO
    assert large.stage(77, 0, bytes(32_748)) == 77
    assert large.stage(77, 0, bytes(32_747)) == ZERO


def test_a_long_bit_map_is_read_whole(tmp_path: Path) -> None:
    extension = QueueExtension(Disk(), tmp_path / "long", 1000)

    addresses = add(extension, unit(3, 900))

    assert extension.read(addresses[0]) == unit(3, 900)


def test_what_is_no_unit_is_not_read(tmp_path: Path) -> None:
    extension = extension_at(tmp_path)
    [first, second] = add(extension, unit(1, 40), unit(2, 10))
    path = tmp_path / "T" / "0" / f"{0:020d}"
    content = path.read_bytes()

    assert extension.read(0) is None  # a tags code
    assert extension.read(ZERO + 10) is None  # inside a unit
    assert extension.read(ZERO + 90) is None  # past the end
    assert extension.read(ZERO + 10_000) is None
    path.write_bytes(content[:18] + b"\0\x63" + content[20:])  # another length of the bit map
    assert extension.read(first) is None
    path.write_bytes(b"\0\x77" + content[2:18] + b"\0\x63" + content[20:])  # past the file
    assert extension.read(first) is None
    path.write_bytes(content[:78])  # a file cut short
    assert extension.read(second) is None


# Turns


def test_staged_units_are_seen_only_after_the_turn(tmp_path: Path) -> None:
    extension = extension_at(tmp_path)

    address = extension.stage(*unit(1))
    extension.write()
    before = extension.read(address)
    extension.advance()

    assert before is None
    assert extension.read(address) == unit(1)


@pytest.mark.parametrize("changes_left", range(4))
def test_a_turn_the_disk_refuses_leaves_no_trace(tmp_path: Path, changes_left: int) -> None:
    disk = RefusingDisk()
    disk.torn_bytes = 10
    extension = extension_at(tmp_path, disk)
    [kept] = add(extension, unit(1))
    for number in range(2, 12):
        extension.stage(*unit(number, 10))

    disk.changes_left = changes_left
    with pytest.raises(DiskFailed) as failure:
        extension.write()
    disk.changes_left = None
    extension.undo()  # while the failure, and with it a view of what was to be written, lives

    assert failure.value.is_full
    assert extension.read(kept) == unit(1)
    content = b"".join(path.read_bytes() for path in sorted((tmp_path / "T" / "0").iterdir()))
    assert not content[20:].strip(b"\0")
    assert add(extension, unit(2)) == [ZERO + 20]


def test_a_turn_without_units_writes_nothing(tmp_path: Path) -> None:
    extension = extension_at(tmp_path)

    extension.write()
    extension.advance()
    extension.undo()

    assert list(tmp_path.iterdir()) == []


# Shortening


def test_everything_behind_the_last_used_unit_goes(tmp_path: Path) -> None:
    addresses = add(extension_at(tmp_path), *(unit(n, 10) for n in range(1, 8)))

    extension = extension_at(tmp_path, last=addresses[1])

    assert [extension.read(address) for address in addresses[:3]] == [
        unit(1, 10),
        unit(2, 10),
        None,
    ]
    assert [path.name for path in (tmp_path / "T" / "0").iterdir()] == [f"{0:020d}"]
    assert add(extension, unit(9, 10)) == [addresses[2]]


def test_an_address_whose_unit_is_lost_is_not_given_out_again(tmp_path: Path) -> None:
    addresses = add(extension_at(tmp_path), *(unit(n, 10) for n in range(1, 8)))
    path = tmp_path / "T" / "0" / f"{100:020d}"
    content = bytearray(path.read_bytes())
    content[0:2] = b"\0\0"
    path.write_bytes(content)

    extension = extension_at(tmp_path, last=addresses[3])

    assert addresses[3] == ZERO + 100
    assert path.read_bytes() == bytes(100)
    assert add(extension, unit(9)) == [ZERO + 200]
    assert extension.read(addresses[3]) is None
    assert extension.read(addresses[2]) == unit(3, 10)


def test_lost_files_leave_their_addresses_unused(tmp_path: Path) -> None:
    extension = extension_at(tmp_path, last=ZERO + 250)

    assert add(extension, unit(1)) == [ZERO + 300]
    assert extension_at(tmp_path, last=ZERO + 300).read(ZERO + 300) == unit(1)


def test_a_queue_that_uses_no_unit_keeps_no_file(tmp_path: Path) -> None:
    add(extension_at(tmp_path), unit(1))

    extension = extension_at(tmp_path, last=None)

    assert list((tmp_path / "T" / "0").iterdir()) == []
    assert add(extension, unit(2)) == [ZERO]


def test_files_before_the_first_used_unit_go_but_never_the_last(tmp_path: Path) -> None:
    extension = extension_at(tmp_path)
    addresses = add(extension, *(unit(n, 60) for n in range(1, 6)))

    removed = [extension.remove_files_before(address) for address in addresses]
    removed.append(extension.remove_files_before(ZERO + 9_999))

    assert removed == [0, 1, 1, 1, 1, 0]
    assert extension.read(addresses[3]) is None
    assert extension.read(addresses[4]) == unit(5, 60)
    assert len(extension.dirty.drain().files) == 1


def test_the_end_is_found_by_walking_over_many_blocks(tmp_path: Path) -> None:
    extension = QueueExtension(Disk(), tmp_path / "many", 300_000)
    addresses = add(extension, *(unit(n % 200, n % 50) for n in range(6_000)))
    again = QueueExtension(Disk(), tmp_path / "many", 300_000)
    again.load()

    assert again.stage(*unit(1)) == extension.stage(*unit(1))
    assert [again.read(address) for address in addresses[::997]] == [
        unit(n % 200, n % 50) for n in range(0, 6_000, 997)
    ]


def test_the_end_of_a_file_that_was_skipped_is_the_next_file(tmp_path: Path) -> None:
    add(extension_at(tmp_path), unit(1, 30), unit(2, 40))
    (tmp_path / "T" / "0" / f"{100:020d}").unlink()
    extension = QueueExtension(Disk(), tmp_path / "T" / "0", FILE_BYTES)
    extension.load()

    assert extension.stage(*unit(3)) == ZERO + 100


def test_a_file_that_is_full_to_its_last_byte_ends_at_the_next(tmp_path: Path) -> None:
    path = tmp_path / "T" / "0" / f"{0:020d}"
    path.parent.mkdir(parents=True)
    path.write_bytes((b"\0\x14" + bytes(18)) * 5)
    extension = QueueExtension(Disk(), tmp_path / "T" / "0", FILE_BYTES)
    extension.load()

    assert extension.stage(*unit(3)) == ZERO + 100


# The model


class ExtensionModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="flintmq-extension-")
        self.disk = RefusingDisk()
        self.extension = extension_at(Path(self.directory.name), self.disk)
        self.units: dict[int, ExtensionUnit] = {}

    def teardown(self) -> None:
        self.disk.close()
        self.directory.cleanup()

    @rule(sizes=st.lists(st.integers(0, 76), max_size=5))
    def turn(self, sizes: list[int]) -> None:
        units = [unit(size, size) for size in sizes]
        for address, added in zip(add(self.extension, *units), units, strict=True):
            assert address not in self.units
            self.units[address] = added

    @rule(sizes=st.lists(st.integers(0, 76), min_size=1, max_size=5), torn=st.integers(0, 90))
    def failed_turn(self, sizes: list[int], torn: int) -> None:
        for size in sizes:
            self.extension.stage(*unit(size, size))
        self.disk.changes_left, self.disk.torn_bytes = 0, torn
        with pytest.raises(DiskFailed):
            self.extension.write()
        self.disk.changes_left = None
        self.extension.undo()

    @rule(cut=st.integers(0, 3))
    def reopen(self, cut: int) -> None:
        for address in sorted(self.units)[len(self.units) - cut :]:
            self.units.pop(address, None)
        last = max(self.units) if self.units else None
        self.extension = extension_at(Path(self.directory.name), self.disk, last=last)

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        if self.units:
            first = data.draw(st.sampled_from(sorted(self.units)))
            self.extension.remove_files_before(first)
            self.units = {at: kept for at, kept in self.units.items() if at >= first}

    @invariant()
    def agrees(self) -> None:
        assert {at: self.extension.read(at) for at in self.units} == self.units


ExtensionModel.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestExtensionModel = ExtensionModel.TestCase
