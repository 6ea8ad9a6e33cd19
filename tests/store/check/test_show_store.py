"""`show_store` lists what is in a store, ours or a real broker's, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.store.check.show_store import show_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import StoreConfig
from support.store.real_stores import ALL, PLAIN, manifest, unpack_store
from support.store.recovering import files, filled
from support.store.stored import SMALL, START_MS


@pytest.mark.parametrize("name", ALL)
def test_queues_of_a_real_directory_have_their_offsets(name: str, tmp_path: Path) -> None:
    directory = unpack_store(name, tmp_path)
    before = files(tmp_path, ".")

    listing = show_store(Disk(), directory, StoreConfig())

    found = {(q.topic, q.queue_id): (q.min_offset, q.max_offset) for q in listing.queues}
    for queue in manifest(name).get("queues", []):
        wanted = (queue["minOffset"], queue["maxOffset"])
        assert found.get((queue["topic"], queue["queueId"]), (0, 0)) == wanted
    assert listing.log.end == manifest(name).get("commit_log_end", listing.log.end)
    assert not listing.is_open
    assert listing.remarks == []
    assert files(tmp_path, ".") == before


@pytest.mark.parametrize("name", PLAIN)
def test_groups_of_a_real_directory_have_their_offsets(name: str, tmp_path: Path) -> None:
    listing = show_store(Disk(), unpack_store(name, tmp_path), StoreConfig())

    found = {(g.group, g.topic, g.queue_id): g.committed for g in listing.groups}
    for one in manifest(name)["consumer_offsets"]:
        assert found[one["group"], one["topic"], one["queueId"]] == one["offset"]
    assert [delay.level for delay in listing.delays] == [1, 2, 18]
    assert listing.delays[2].waiting == 3


def test_a_store_at_work_can_be_shown(tmp_path: Path) -> None:
    log = filled(tmp_path, 30)

    listing = show_store(Disk(), tmp_path, SMALL)

    assert listing.is_open
    assert listing.log.end == log.end_offset
    assert [(q.topic, q.max_offset) for q in listing.queues] == [("T", 15), ("U", 15)]
    first = listing.queues[0]
    assert (first.oldest_ms, first.newest_ms) == (START_MS, START_MS + 28_000)
    assert sum(q.size_bytes for q in listing.queues) <= log.end_offset
    log.close()
