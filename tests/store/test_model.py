"""Whatever is done to a store, it holds what a plain list would hold: through turns that fail,
clean and unclean ends, and files that go.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flintmq.errors import DiskFailed
from flintmq.model.java_hash import tags_code
from flintmq.model.queue import QueueOffset
from flintmq.protocol.records.record import decode_record
from flintmq.store.queues.consume_queue import Bound
from flintmq.store.queues.selection import Selection
from support.store.refusing_disk import RefusingDisk
from support.store.stored import SMALL, START_MS, draft, open_store, records

TOPICS = ("A", "B")
QUEUE_IDS = (0, 1)
TAGS = ("x", "y")
KEPT_MS = SMALL.retention_hours * 3_600_000


class Stored(NamedTuple):
    body: bytes
    tag: str
    key: str
    store_ms: int


class StoreModel(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="flintmq-model-"))
        self.disk = RefusingDisk()
        self.log = open_store(self.directory, SMALL, self.disk)
        self.now_ms = START_MS
        self.queues: dict[tuple[str, int], list[Stored]] = defaultdict(list)
        self.staged: list[tuple[tuple[str, int], Stored]] = []
        self.count = 0

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.disk.changes_left = None
            self.log.close()
            shutil.rmtree(self.directory)

    # Messages

    @rule(
        topic=st.sampled_from(TOPICS),
        queue_id=st.sampled_from(QUEUE_IDS),
        size=st.integers(0, 600),
        tag=st.sampled_from(TAGS),
    )
    def append(self, topic: str, queue_id: int, size: int, tag: str) -> None:
        self.count += 1
        self.now_ms += self.count % 3
        message = Stored(b"%d|" % self.count + bytes(size), tag, f"k{self.count % 20}", self.now_ms)
        appended = self.log.append(
            *draft(message.body, topic, queue_id, 0, TAGS=tag, KEYS=message.key),
            tags_code=tags_code(tag),
            keys=(message.key,),
            now_ms=self.now_ms,
        )
        key = (topic, queue_id)
        waiting = sum(other == key for other, _ in self.staged)
        assert appended.queue_offset == len(self.queues[key]) + waiting
        self.staged.append((key, message))

    @rule()
    def write(self) -> None:
        grown = self.log.write()

        assert sum(queue.stop - queue.start for queue in grown) == len(self.staged)
        for key, message in self.staged:
            self.queues[key].append(message)
        self.staged = []

    @precondition(lambda self: self.staged)
    @rule(changes=st.integers(0, 6), torn_bytes=st.integers(0, 2_000))
    def fail_to_write(self, changes: int, torn_bytes: int) -> None:
        self.disk.changes_left, self.disk.torn_bytes = changes, torn_bytes
        try:
            self.write()
        except DiskFailed:
            self.staged = []
        self.disk.changes_left = None
        self.log._mending.mend()  # or a crash right now would bring the turn back, as it may

    # The store itself

    @rule(thorough=st.booleans())
    def sync(self, thorough: bool) -> None:
        plan = self.log.begin_sync(thorough=thorough)
        if plan is not None:
            plan.run()
            assert self.log.finish_sync(plan) == self.log.end_offset

    @rule()
    def stop_and_start(self) -> None:
        self.write()
        self.log.close()
        self.log = open_store(self.directory, SMALL, self.disk)

    @rule()
    def die_and_start(self) -> None:
        self.staged = []
        self.log = open_store(self.directory, SMALL, self.disk)

    @precondition(lambda self: not self.staged)
    @rule()
    def retain(self) -> None:
        self.log.retain(self.now_ms + KEPT_MS, due=True)

    # What must hold

    def start_of(self, key: tuple[str, int]) -> int:
        """The first message that is kept: files go as a whole, so the store says which."""
        start = self.log.min_offset(*key)
        assert start <= len(self.queues[key])
        return start

    @invariant()
    def every_queue_holds_its_messages(self) -> None:
        for key, messages in self.queues.items():
            assert self.log.max_offset(*key) == len(messages)
            kept = messages[self.start_of(key) :]
            assert self.read(key, Selection()) == [message.body for message in kept]

    @invariant()
    def tags_select_messages(self) -> None:
        wanted = Selection(frozenset({tags_code("x")}))
        for key, messages in self.queues.items():
            kept = messages[self.start_of(key) :]
            assert self.read(key, wanted) == [m.body for m in kept if m.tag == "x"]

    @rule(number=st.integers(0, 19))
    def keys_lead_to_messages(self, number: int) -> None:
        for topic in TOPICS:
            found = self.log.lookup.by_key(topic, f"k{number}", 64, 0, 2**62)
            bodies = {decode_record(view).body for view in found.views}
            expected = {
                message.body
                for key in self.queues
                if key[0] == topic
                for message in self.queues[key][self.start_of(key) :]
                if message.key == f"k{number}"
            }
            assert expected <= bodies

    @rule(back_ms=st.integers(0, 50))
    def times_lead_to_offsets(self, back_ms: int) -> None:
        for key, messages in self.queues.items():
            start = self.start_of(key)
            times = [message.store_ms for message in messages[start:]]
            moment = self.now_ms - back_ms
            lower = self.log.lookup.offset_by_time(*key, moment, Bound.LOWER)
            assert lower == start + sum(time_ms < moment for time_ms in times)

    def read(self, key: tuple[str, int], wanted: Selection) -> list[bytes]:
        taken: list[bytes] = []
        offset = self.log.min_offset(*key)
        while offset < self.log.max_offset(*key):
            found = self.log.read(*key, offset, 7, wanted=wanted)
            taken += [record.body for record in records(found)]
            assert found.next_offset > offset
            offset = QueueOffset(found.next_offset)
        return taken


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
