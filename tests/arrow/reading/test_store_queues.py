"""A store directory gives the rows that its broker would, and is left as it was."""

from __future__ import annotations

import hashlib
import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.arrow.reading.store_queues import StorePages, StoreQueues
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.client.admin import Admin
from flintmq.client.producer.threaded_producer import Producer
from flintmq.core.admin.spans import LocatedSpan
from flintmq.core.reading.read_span import EVERYTHING, Page, Wanted
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import NoRoute, StoreRefused
from flintmq.model.message import Message, ReceivedMessage
from flintmq.model.queue import Extent, QueueOffset, QueueRef, Span
from flintmq.store.files.layout import FILL_UNIT, UNIT_BYTES
from flintmq.store.files.store_config import Flush, StoreConfig
from flintmq.store.readonly import store_records as store_gather
from support.spark.support import BROKER, create_topic, send, write_held
from support.store.real_stores import ALL, PLAIN, manifest, unpack_store

SMALL_FILES = BrokerConfig(
    store=StoreConfig(flush=Flush.ASYNC, commit_log_file_bytes=16 * 1024 * 1024)
)
"""Files that a test reads as a whole before and after."""

Files = dict[str, tuple[int, int, str]]


@pytest.fixture(params=PLAIN)
def real_store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A store that a Java broker wrote, and its name."""
    return request.param, unpack_store(request.param, tmp_path)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "live", config=SMALL_FILES) as servers:
        yield servers


def snapshot(directory: Path) -> Files:
    """Every file: its size, when it changed, and what it holds."""
    return {
        str(path.relative_to(directory)): (
            path.stat().st_size,
            path.stat().st_mtime_ns,
            hashlib.sha1(path.read_bytes()).hexdigest(),
        )
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def pages_of(
    directory: Path, queue: QueueRef, start: int, stop: int, wanted: Wanted = EVERYTHING
) -> list[Page]:
    span = Span(queue, QueueOffset(start), QueueOffset(stop))
    pages = list(StorePages().pages(ReadPart(span, str(directory)), wanted, 1_000))
    assert [page.start for page in pages[1:]] == [page.stop for page in pages[:-1]]
    if pages:
        assert (pages[0].start, pages[-1].stop) == (start, stop)
    return pages


def messages_of(
    directory: Path, queues: StoreQueues, topic: str, wanted: Wanted = EVERYTHING
) -> list[ReceivedMessage]:
    """All messages of a topic, queue by queue."""
    found = []
    for queue, extent in queues.extents(queues.queues([topic])).items():
        for page in pages_of(directory, queue, extent.start, extent.stop, wanted):
            assert page.gap is None
            found += page.messages(wanted)
    return found


def gaps_of(pages: Sequence[Page]) -> list[tuple[int, int]]:
    return [page.gap for page in pages if page.gap is not None]


@pytest.mark.parametrize("name", ALL)
def test_all_messages_of_a_real_broker_are_there(name: str, tmp_path: Path) -> None:
    directory = unpack_store(name, tmp_path)
    before = snapshot(directory)
    queues = StoreQueues(str(directory))
    expected = manifest(name)["messages"]

    found = [
        (m.topic, m.queue_id, m.queue_offset, m.log_offset, m.stored_bytes)
        for topic in {message["topic"] for message in expected}
        for m in messages_of(directory, queues, topic)
    ]
    queues.close()

    assert sorted(found) == sorted(
        (m["topic"], m["queueId"], m["queueOffset"], m["commitLogOffset"], m["storeSize"])
        for m in expected
    )
    assert snapshot(directory) == before


def test_topics_queues_extents_and_groups_are_those_of_the_broker(
    real_store: tuple[str, Path],
) -> None:
    name, directory = real_store
    told = manifest(name)
    queues = StoreQueues(str(directory))

    assert queues.broker == told["broker_name"]
    assert queues.topics() == ("events-utf8", "orders", "tasks")
    orders = [q for q in told["queues"] if q["topic"] == "orders"]
    assert queues.extents(queues.queues(["orders"])) == {
        QueueRef("orders", "broker-a", q["queueId"]): Extent(q["minOffset"], q["maxOffset"])
        for q in orders
    }
    offsets = queues.group_offsets(queues.queues(["orders", "tasks"]), "golden_pull")
    assert offsets == {
        QueueRef(q["topic"], "broker-a", q["queueId"]): q["offset"]
        for q in told["consumer_offsets"]
        if q["group"] == "golden_pull"
    }
    assert queues.group_offsets(queues.queues(["orders"]), "nobody") == {}
    assert queues.origin(QueueRef("orders", "broker-a", 0)) == str(directory)


def test_a_time_leads_to_the_first_message_stored_then_or_later(
    real_store: tuple[str, Path],
) -> None:
    _, directory = real_store
    queues = StoreQueues(str(directory))
    for queue, extent in queues.extents(queues.queues(["orders"])).items():
        pages = pages_of(directory, queue, extent.start, extent.stop)
        times = [message.store_ms for page in pages for message in page.messages()]
        for time_ms in {0, *times, times[0] - 1, times[len(times) // 2] + 1, times[-1] + 1}:
            expected = next((n for n, ms in enumerate(times) if ms >= time_ms), len(times))

            assert queues.offsets_at([queue], time_ms) == {queue: expected}


@pytest.mark.parametrize("name", ALL)
def test_tags_choose_by_hash_and_text(name: str, tmp_path: Path) -> None:
    directory = unpack_store(name, tmp_path)
    expected = manifest(name)["messages"]
    queues = StoreQueues(str(directory))
    tagged = [m for m in expected if m["properties"].get("TAGS") and m["topic"][0] not in "%RS"]
    topic = tagged[0]["topic"]
    tag = tagged[0]["properties"]["TAGS"]

    found = messages_of(directory, queues, topic, Wanted.by(tags=f"{tag} || nobody"))

    assert sorted((m.queue_id, m.queue_offset) for m in found) == sorted(
        (m["queueId"], m["queueOffset"])
        for m in expected
        if m["topic"] == topic and m["properties"].get("TAGS") == tag
    )


@pytest.mark.parametrize("name", ["golden-ext-4.9.7", "golden-ext-5.3.3"])
def test_sql_chooses_by_properties(name: str, tmp_path: Path) -> None:
    directory = unpack_store(name, tmp_path)
    queues = StoreQueues(str(directory))

    found = messages_of(directory, queues, "filtered", Wanted.by(sql="price > 100"))

    expected = [
        m["queueOffset"]
        for m in manifest(name)["messages"]
        if m["topic"] == "filtered" and float(m["properties"].get("price", 0)) > 100
    ]
    assert expected
    assert sorted(m.queue_offset for m in found) == expected


def test_a_directory_that_a_broker_has_open_is_followed_and_not_touched(
    live: EmbeddedBroker,
) -> None:
    topic = create_topic(live, "growing", 2)
    write_held(live)
    queues = StoreQueues(str(live.directory))
    assert topic in queues.topics()
    first, second = queues.queues([topic])
    assert StoreQueues(str(live.directory)).broker == BROKER
    assert queues.extents([first, second]) == dict.fromkeys([first, second], Extent(0, 0))  # type: ignore[arg-type]  # numbers
    for round_ in range(3):
        send(live, topic, [f"{round_}-{n}" for n in range(1_000)], queue_id=round_ % 2)
        write_held(live)
        before = snapshot(live.directory / "commitlog")

        extents = queues.extents([first, second])

        assert extents[first if round_ % 2 == 0 else second].stop == 1_000 * (round_ // 2 + 1)
        assert snapshot(live.directory / "commitlog") == before
    bodies = [m.body.decode() for m in messages_of(live.directory, queues, topic)]
    assert bodies == [f"{r}-{n}" for r in (0, 2, 1) for n in range(1_000)]
    send(live, topic, ["still writable"])


def test_rows_are_those_that_the_broker_gives(live: EmbeddedBroker) -> None:
    """Queues lie mixed in the log, bodies are of any size, some records fill files alone."""
    topic = create_topic(live, "mixed", 4)
    with Producer("mixers", namesrv=live.namesrv) as producer:
        for number in range(400):
            body = bytes([number % 251]) * (1 + number * number % 7_000)
            producer.send(
                Message(topic, body, tags=f"t{number % 3}", properties={"n": str(number)})
            )
    write_held(live)
    queues = StoreQueues(str(live.directory))

    with Admin(namesrv=live.namesrv) as admin:
        for wanted in (EVERYTHING, Wanted.by(tags="t1"), Wanted.by(sql="n BETWEEN 7 AND 300")):
            for queue, extent in queues.extents(queues.queues([topic])).items():
                span = Span(queue, extent.start, extent.stop)
                pages = pages_of(live.directory, queue, extent.start, extent.stop, wanted)

                mine = [m for page in pages for m in page.messages(wanted)]

                theirs = list(admin.read(LocatedSpan(span, live.broker), wanted))
                assert theirs
                assert [m.queue_offset for m in mine] == [m.queue_offset for m in theirs]
                assert mine == theirs


def test_pages_are_cut_at_their_size(live: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = create_topic(live, "large")
    send(live, topic, [b"x" * 3_000] * 50)
    write_held(live)
    queue = QueueRef(topic, BROKER, 0)
    monkeypatch.setattr(store_gather, "PAGE_BYTES", 10_000)

    pages = pages_of(live.directory, queue, 0, 50)

    assert all(len(page.records) <= 10_000 for page in pages)
    assert len(pages) == 17
    assert sum(len(page.messages()) for page in pages) == 50
    monkeypatch.setattr(store_gather, "PAGE_BYTES", 10)
    assert len(pages_of(live.directory, queue, 0, 50)) == 50


def test_what_was_deleted_or_never_there_is_a_gap(live: EmbeddedBroker) -> None:
    topic = create_topic(live, "gone")
    send(live, topic, [f"{n}" for n in range(10)])
    directory = live.directory
    live.stop_broker(BROKER)
    queue = QueueRef(topic, BROKER, 0)
    units = directory / "consumequeue" / topic / "0" / ("0" * 20)
    content = bytearray(units.read_bytes())
    log = directory / "commitlog" / ("0" * 20)
    log_offset, size, _ = struct.unpack_from(">qiq", content, 6 * UNIT_BYTES)
    content[2 * UNIT_BYTES : 3 * UNIT_BYTES] = FILL_UNIT  # nothing was ever there
    units.write_bytes(content)
    with log.open("r+b") as file:  # two records in a row are damaged
        file.seek(log_offset)
        file.write(bytes(size + 8))

    pages = pages_of(directory, queue, 0, 15)

    assert gaps_of(pages) == [(6, 8), (10, 15)]
    assert [int(m.body) for page in pages for m in page.messages()] == [0, 1, 3, 4, 5, 8, 9]


def test_records_of_files_that_the_log_no_longer_has_are_a_gap(tmp_path: Path) -> None:
    directory = unpack_store("golden-4.9.7", tmp_path)
    (directory / "commitlog" / ("0" * 20)).unlink()
    queues = StoreQueues(str(directory))
    queue = QueueRef("orders", "broker-a", 0)

    (extent,) = queues.extents([queue]).values()
    pages = pages_of(directory, queue, 0, extent.stop)

    assert 0 < extent.start < extent.stop == 95
    assert gaps_of(pages) == [(0, extent.start)]
    assert [m.queue_offset for page in pages for m in page.messages()] == list(
        range(extent.start, 95)
    )


def test_a_copy_with_a_shortened_log_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    directory = unpack_store("golden-5.3.3", tmp_path)
    last = directory / "commitlog" / f"{131072:020}"
    last.write_bytes(last.read_bytes().rstrip(b"\0"))
    queues = StoreQueues(str(directory))

    (extent,) = queues.extents([QueueRef("orders", "broker-a", 1)]).values()

    assert extent == Extent(QueueOffset(0), QueueOffset(92))
    assert len(messages_of(directory, queues, "orders")) == len(
        [m for m in manifest("golden-5.3.3")["messages"] if m["topic"] == "orders"]
    )


def test_units_that_a_crash_left_without_records_are_not_shown(live: EmbeddedBroker) -> None:
    topic = create_topic(live, "torn")
    send(live, topic, [f"{n}" for n in range(5)])
    directory = live.directory
    live.stop_broker(BROKER)
    units = directory / "consumequeue" / topic / "0" / ("0" * 20)
    content = bytearray(units.read_bytes())
    struct.pack_into(">qiq", content, 5 * UNIT_BYTES, 1_000_000, 200, 0)
    units.write_bytes(content)

    (extent,) = StoreQueues(str(directory)).extents([QueueRef(topic, BROKER, 0)]).values()

    assert extent.stop == 5


def test_a_topic_that_was_made_anew_begins_anew(live: EmbeddedBroker) -> None:
    topic = create_topic(live, "anew")
    send(live, topic, ["a"] * 10)
    write_held(live)
    queues, queue = StoreQueues(str(live.directory)), QueueRef("anew", BROKER, 0)
    assert queues.extents([queue])[queue].stop == 10
    with Admin(namesrv=live.namesrv) as admin:
        admin.delete_topic(topic)
    create_topic(live, topic)
    send(live, topic, ["b"] * 3)
    write_held(live)

    assert queues.extents([queue])[queue] == Extent(QueueOffset(0), QueueOffset(3))


def test_what_is_no_store_or_has_no_such_topic_is_refused(tmp_path: Path) -> None:
    unpack_store("golden-4.9.7", tmp_path)

    with pytest.raises(StoreRefused, match=r"is it .*store\?"):
        StoreQueues(str(tmp_path))
    with pytest.raises(StoreRefused, match="has no commitlog"):
        StoreQueues(str(tmp_path / "nowhere"))
    queues = StoreQueues(str(tmp_path / "store"))
    with pytest.raises(NoRoute, match="nobody"):
        queues.queues(["orders", "nobody"])
    assert queues.extents([QueueRef("orders", "another-broker", 0)]) == {}


def test_a_topic_that_keeps_batches_is_read_message_by_message(tmp_path: Path) -> None:
    directory = unpack_store("golden-batch-5.3.3", tmp_path)
    queues = StoreQueues(str(directory))
    refs = queues.queues(["batched"])

    extents = queues.extents(refs)

    assert [extents[ref].stop for ref in refs] == [67, 46]
    for ref in refs:
        stop = int(extents[ref].stop)
        whole = [m for page in pages_of(directory, ref, 0, stop) for m in page.messages()]
        assert [message.queue_offset for message in whole] == list(range(stop))
        for start, end in ((0, 3), (5, 6), (5, 11), (stop - 3, stop)):
            part = [m for page in pages_of(directory, ref, start, end) for m in page.messages()]
            assert part == whole[start:end]
        for at in (0, 10, stop - 1):
            offset = queues.offsets_at([ref], whole[at].store_ms)[ref]
            assert whole[offset].store_ms == whole[at].store_ms
            assert offset == 0 or whole[offset - 1].store_ms < whole[at].store_ms
        assert queues.offsets_at([ref], whole[-1].store_ms + 1)[ref] == stop


def test_records_of_batches_that_are_lost_are_a_gap(tmp_path: Path) -> None:
    directory = unpack_store("golden-batch-5.3.3", tmp_path)
    queues = StoreQueues(str(directory))
    (ref, _) = queues.queues(["batched"])
    log = directory / "commitlog" / f"{0:020d}"
    content = bytearray(log.read_bytes())
    content[1263:1267] = bytes(4)  # the size of the record with offsets 4 to 8
    log.write_bytes(content)

    pages = pages_of(directory, ref, 0, 20)

    assert [page.gap for page in pages if page.gap] == [(4, 9)]
    offsets = [message.queue_offset for page in pages for message in page.messages()]
    assert offsets == [*range(4), *range(9, 20)]


def test_a_directory_without_tables_is_called_by_its_name(tmp_path: Path) -> None:
    directory = unpack_store("golden-4.9.7", tmp_path)
    shutil.rmtree(directory / "config")

    queues = StoreQueues(str(directory))

    assert queues.broker == "store"
    assert queues.topics() == ("events-utf8", "orders", "tasks")
    assert queues.group_offsets(queues.queues(["orders"]), "golden_pull") == {}
