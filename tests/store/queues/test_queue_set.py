"""Every queue is found by its name, and no name leads out of the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.errors import InvalidName
from flintmq.model.queue import QueueOffset
from flintmq.store.files.disk import Disk
from flintmq.store.queues.queue_set import QueueSet, check_directory_name
from support.store.stored import SMALL, open_store, store


def test_asking_for_a_queue_makes_none(tmp_path: Path) -> None:
    queues = QueueSet(Disk(), tmp_path, SMALL)

    assert queues.find("T", 0) is None
    assert len(queues) == 0


def test_a_queue_is_the_same_whenever_it_is_opened(tmp_path: Path) -> None:
    queues = QueueSet(Disk(), tmp_path, SMALL)

    queue = queues.open("T", 3)

    assert queues.open("T", 3) is queue
    assert queues.find("T", 3) is queue
    assert list(queues) == [queue]


def test_queues_of_a_directory_are_found_again(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for topic, queue_id in (("A", 0), ("A", 11), ("%RETRY%g", 0)):
        store(log, topic=topic, queue_id=queue_id)
    log.close()
    queues = QueueSet(Disk(), tmp_path, SMALL)

    complaints = queues.load()

    assert complaints == []
    assert {(queue.topic, queue.queue_id) for queue in queues} == {
        ("A", 0),
        ("A", 11),
        ("%RETRY%g", 0),
    }
    assert all(queue.max_offset == 1 for queue in queues)


def test_light_queues_are_left_alone_where_they_are_not_served(tmp_path: Path) -> None:
    path = tmp_path / "consumequeue" / "%LMQ%x" / "0"
    path.mkdir(parents=True)
    queues = QueueSet(Disk(), tmp_path, SMALL)

    queues.load()

    assert len(queues) == 0
    assert path.exists()


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../x", "a\0b", "x" * 256, "\ud800"])
def test_a_topic_that_is_no_name_of_a_directory_is_refused(tmp_path: Path, topic: str) -> None:
    queues = QueueSet(Disk(), tmp_path, SMALL)

    with pytest.raises(InvalidName):
        queues.open(topic, 0)
    assert len(queues) == 0


@pytest.mark.parametrize("topic", ["T", "%RETRY%group+topic", "%DLQ%g", "x" * 255, "..a"])
def test_names_brokers_make_are_taken(topic: str) -> None:
    check_directory_name(topic)


def test_removing_a_topic_removes_its_files_and_directories(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for topic in ("A", "B"):
        for queue_id in range(2):
            store(log, topic=topic, queue_id=queue_id)
    log.flush()

    log.delete_topic("A")

    assert [span.topic for span in log.queues()] == ["B", "B"]
    assert [path.name for path in (tmp_path / "consumequeue").iterdir()] == ["B"]
    assert log.max_offset("A", 0) == 0


def test_a_topic_removed_begins_anew(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, topic="A")
    store(log, topic="A")
    log.delete_topic("A")

    appended = store(log, b"new", topic="A")

    assert appended.queue_offset == 0
    assert log.read("A", 0, QueueOffset(0), 32).record_count == 1
    log.close()


def test_only_queues_that_changed_are_synced(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, topic="A")
    plan = log.begin_sync(thorough=True)
    assert plan is not None
    plan.run()
    log.finish_sync(plan)
    store(log, topic="B")

    plan = log.begin_sync(thorough=True)

    assert plan is not None
    synced = {path.parent.parent.name for _, dirty in plan.parts for path in dirty.files}
    assert "B" in synced
    assert "A" not in synced
