"""A store behaves like a few lists in memory, whatever happens between and during its steps.

The model has every message of every queue.  Steps are turns of appends, syncs, deletions,
looking things up, closing, and being killed with everything that was not synced kept or not
(a kill keeps it: the system has the bytes; losing them is `test_crash_states`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flintmq.model.java_hash import tags_code
from flintmq.model.queue import QueueOffset
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from flintmq.store.queues.consume_queue import Bound
from flintmq.store.queues.selection import Selection
from support.crash.workload import QuickDisk, abandon, served
from support.store.stored import START_MS, draft

CONFIG = StoreConfig(
    commit_log_file_bytes=2048,
    queue_file_bytes=100,
    extension_file_bytes=512,
    index_slots=8,
    index_entries=16,
)
TOPICS = ("A", "B")
TAGS = ("x", "y")

messages = st.lists(
    st.tuples(
        st.sampled_from(TOPICS),
        st.integers(0, 1),
        st.sampled_from(TAGS),
        st.integers(0, 400),
    ),
    min_size=1,
    max_size=6,
)


@dataclass
class Kept:
    body: bytes
    tag: str
    key: str
    store_ms: int


@dataclass
class Model:
    queues: dict[tuple[str, int], list[Kept]] = field(default_factory=dict)
    count: int = 0


class StoreModel(RuleBasedStateMachine):
    @initialize(extended=st.booleans())
    def begin(self, extended: bool) -> None:
        self.directory = TemporaryDirectory()
        self.path = Path(self.directory.name)
        self.config = StoreConfig(
            commit_log_file_bytes=CONFIG.commit_log_file_bytes,
            queue_file_bytes=CONFIG.queue_file_bytes,
            extension_file_bytes=CONFIG.extension_file_bytes,
            index_slots=CONFIG.index_slots,
            index_entries=CONFIG.index_entries,
            extended_queues=extended,
        )
        self.model = Model()
        self.now_ms = START_MS
        self._open()

    def _open(self) -> None:
        self.log = MessageLog.open(self.path, self.config, process_id=1, disk=QuickDisk())

    @rule(turn=messages, later_ms=st.integers(0, 5_000))
    def append(self, turn: list[tuple[str, int, str, int]], later_ms: int) -> None:
        self.now_ms += later_ms
        for topic, queue_id, tag, size in turn:
            self.model.count += 1
            key = f"k{self.model.count}"
            body = b"#%d:" % self.model.count + bytes(size)
            octets = draft(body, topic, queue_id, TAGS=tag, KEYS=key)
            code = tags_code(tag)
            at = self.log.append(*octets, tags_code=code, keys=(key,), now_ms=self.now_ms)
            queue = self.model.queues.setdefault((topic, queue_id), [])
            assert at.queue_offset == len(queue)
            queue.append(Kept(body, tag, key, self.now_ms))
        self.log.write()

    @rule(thorough=st.booleans())
    def sync(self, thorough: bool) -> None:
        plan = self.log.begin_sync(thorough=thorough)
        if plan is not None:
            plan.run()
            assert self.log.finish_sync(plan) == self.log.end_offset

    @rule()
    def close_and_open(self) -> None:
        self.log.close()
        self._open()

    @rule()
    def kill_and_open(self) -> None:
        abandon(self.log)
        self._open()

    @rule(topic=st.sampled_from(TOPICS))
    def delete(self, topic: str) -> None:
        self.log.delete_topic(topic)
        for key in [key for key in self.model.queues if key[0] == topic]:
            del self.model.queues[key]

    @precondition(lambda self: self.model.queues)
    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        topic, queue_id = data.draw(st.sampled_from(sorted(self.model.queues)))
        queue = self.model.queues[topic, queue_id]
        offset = data.draw(st.integers(0, len(queue) - 1))
        wanted = queue[offset]

        views = self.log.lookup.by_key(topic, wanted.key, 64, 0, 2**60).views
        assert any(wanted.body in bytes(view) for view in views)
        lower = self.log.lookup.offset_by_time(topic, queue_id, wanted.store_ms, Bound.LOWER)
        times = [kept.store_ms for kept in queue]
        assert lower == times.index(wanted.store_ms)

    @precondition(lambda self: self.model.queues)
    @rule(data=st.data(), tag=st.sampled_from(TAGS))
    def read_by_tag(self, data: st.DataObject, tag: str) -> None:
        topic, queue_id = data.draw(st.sampled_from(sorted(self.model.queues)))
        queue = self.model.queues[topic, queue_id]
        wanted = Selection(frozenset({tags_code(tag)}))
        found = b""
        offset = QueueOffset(0)
        while offset < len(queue):
            result = self.log.read(topic, queue_id, offset, 32, wanted=wanted)
            found += b"".join(bytes(view) for view in result.views)
            offset = result.next_offset
        for kept in queue:
            assert (kept.body in found) == (kept.tag == tag)

    @invariant()
    def has_what_the_model_has(self) -> None:
        if not hasattr(self, "log"):
            return
        found = {key: record.body for key, record in served(self.log).items()}
        assert found == {
            (topic, queue_id, offset): kept.body
            for (topic, queue_id), queue in self.model.queues.items()
            for offset, kept in enumerate(queue)
        }

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            report = check_store(Disk(), self.path, self.config)
            assert report.findings.kept == []
            self.directory.cleanup()


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
