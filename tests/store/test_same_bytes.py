"""Same input, same bytes: what a real broker stored, appended here at the same times, makes the
same commit log, the same queues and the same index.

Judges: the store directories of RocketMQ 4.9.7 and 5.3.3 in ``golden/stores``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flintmq.model.queue import QueueOffset
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import decode_record
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import EXTENSION_ADDRESS_ZERO
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.index.key_index import KeyIndex
from flintmq.store.message_log import MessageLog
from flintmq.store.queues.dispatch import keys_of
from support.store.real_records import real_records, redraft
from support.store.real_stores import (
    ALL,
    EXTENDED,
    manifest,
    setting,
    stored_messages,
    unpack_store,
)
from support.store.stored import code_of

INDEX_SHAPE = (100, 500)


def config_of(name: str) -> StoreConfig:
    return StoreConfig(
        commit_log_file_bytes=setting(name, "mappedFileSizeCommitLog"),
        queue_file_bytes=setting(name, "mappedFileSizeConsumeQueue"),
        extension_file_bytes=1024,
        index_slots=INDEX_SHAPE[0],
        index_entries=INDEX_SHAPE[1],
        extended_queues=name in EXTENDED,
    )


def store_again(name: str, real: Path, to: Path, turn: int) -> MessageLog:
    """Append every message of a real directory, some to a turn."""
    log = MessageLog.open(to, config_of(name), process_id=1)
    facts = {message["commitLogOffset"]: message for message in stored_messages(name)}
    for count, record in enumerate(real_records(real), 1):
        properties = parse_properties(record.properties)
        appended = log.append(
            *redraft(record),
            tags_code=code_of(log.config, record.topic, properties, record.store_ms),
            keys=keys_of(properties),
            bit_map=_bit_map(facts[record.log_offset]),
            now_ms=record.store_ms,
        )
        assert appended.log_offset == record.log_offset
        assert appended.queue_offset == record.queue_offset
        if count % turn == 0:
            log.write()
    log.write()
    return log


def _bit_map(fact: dict[str, Any]) -> bytes:
    return bytes.fromhex(fact.get("bitMap") or "")


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def index_entries(directory: Path) -> list[tuple[int, ...]]:
    index = KeyIndex(Disk(), directory / "index", *INDEX_SHAPE)
    index.load()
    return [tuple(entry) for file in index.files for entry in file.entries().tolist()]


@pytest.mark.parametrize("turn", [1, 32, 1000])
@pytest.mark.parametrize("name", ALL)
def test_the_messages_of_a_real_directory_make_the_same_files(
    tmp_path: Path, name: str, turn: int
) -> None:
    real = unpack_store(name, tmp_path / "real")

    log = store_again(name, real, tmp_path / "ours", turn)
    log.close()

    for part in ("commitlog", "consumequeue", "consumequeue_ext"):
        assert files(tmp_path / "ours" / part) == files(real / part), part
    assert index_entries(tmp_path / "ours") == index_entries(real)
    assert len(index_entries(real)) > 0


@pytest.mark.parametrize("name", ALL)
def test_a_real_directory_opens_with_every_message_in_its_place(tmp_path: Path, name: str) -> None:
    real = unpack_store(name, tmp_path)
    before = files(real)

    log = MessageLog.open(real, StoreConfig(), process_id=1)

    for fact in stored_messages(name):
        found = log.read(fact["topic"], fact["queueId"], QueueOffset(fact["queueOffset"]), 1)
        (record,) = [decode_record(view) for view in found.views]
        assert record.log_offset == fact["commitLogOffset"]
        assert len(found.views[0]) == fact["storeSize"]
    assert log.end_offset == manifest(name)["commit_log_end"]
    log.close()
    after = files(real)
    for path in before:
        if path.startswith(("commitlog", "consumequeue", "index")):
            assert after[path] == before[path], path


@pytest.mark.parametrize("name", ALL)
def test_every_key_of_a_real_directory_is_found(tmp_path: Path, name: str) -> None:
    log = MessageLog.open(unpack_store(name, tmp_path), StoreConfig(), process_id=1)

    for fact in stored_messages(name):
        for key in keys_of(fact["properties"]):
            found = log.lookup.by_key(fact["topic"], key, 64, 0, 2**62)
            places = [decode_record(view).log_offset for view in found.views]
            assert fact["commitLogOffset"] in places or len(places) == 64
    log.close()


@pytest.mark.parametrize("name", EXTENDED)
def test_extension_units_are_those_of_the_real_broker(tmp_path: Path, name: str) -> None:
    real = unpack_store(name, tmp_path / "real")

    log = store_again(name, real, tmp_path / "ours", 32)

    for fact in stored_messages(name):
        extension = log._queues.find_extension(fact["topic"], fact["queueId"])
        assert extension is not None
        unit = extension.read(fact["extOffset"] + EXTENSION_ADDRESS_ZERO)
        assert unit is not None
        assert np.int64(unit.tags_code) == fact["extTagsCode"]
        assert unit.bit_map == _bit_map(fact)
    log.close()
