"""A master and a slave without sockets, and everything that can happen between them, by a seed.

The master stores messages; the slave connects, is sent frames of any size, and loses the connection
anywhere; frames come twice or from a wrong place; the slave is stopped, or killed and opened
again.  The master keeps all of its log, so that a slave can always catch up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from flintmq.core.replication.slave_session import OVERLAP_BYTES, SlaveSession
from flintmq.errors import FlintError
from flintmq.model.queue import LogOffset
from flintmq.model.sys_flag import TransactionType
from flintmq.protocol.replication.ha_frames import TRANSFER_BYTES, encode_header
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.message_log import MessageLog
from support.crash.workload import abandon
from support.replication.cut_streams import connect
from support.store.stored import SMALL, START_MS, draft, open_store

STEPS = 30
KINDS = (TransactionType.NONE, TransactionType.PREPARED, TransactionType.ROLLBACK)


class SimulatedPair:
    """One run."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = Random(seed)
        self.directory = directory
        self.master = open_store(directory / "master")
        self.slave = open_store(directory / "slave")
        self.mismatches = 0

    def run(self) -> None:
        """Do this and that, then let the slave catch up."""
        actions = (self.send, self.send, self.follow, self.follow, self.restart, self.kill)
        for _ in range(STEPS):
            self.chance.choice(actions)()
        self.send()
        connect(self.slave, self.frames(self.report()), None)

    def send(self) -> None:
        chance = self.chance
        for _ in range(chance.randrange(1, 8)):
            kind = int(chance.choices(KINDS, (8, 1, 1))[0])
            key = f"k{chance.randrange(1_000)}"
            body = chance.randbytes(chance.choice((0, 1, 30, 200, 1_500)))
            topic, queue_id = f"T{chance.randrange(3)}", chance.randrange(2)
            made = draft(body, topic, queue_id, kind, KEYS=key, TAGS="a")
            self.master.append(*made, keys=(key,), tags_code=97, now_ms=START_MS)
        self.master.write()

    def follow(self) -> None:
        """Connect, and lose the connection sooner or later."""
        left = self.chance.choice((1, 13, 100, 1_000, 20_000))
        try:
            connect(self.slave, self.disturbed(self.frames(self.report())), left)
        except FlintError:
            self.mismatches += 1
            self.slave.write()  # what came before is good

    def restart(self) -> None:
        self.slave.close()
        self.slave = open_store(self.directory / "slave")

    def kill(self) -> None:
        abandon(self.slave)
        self.slave = MessageLog.open(
            self.directory / "slave", replace(SMALL), process_id=2, disk=Disk()
        )

    def report(self) -> LogOffset:
        """What the slave says first."""
        end = LogOffset(0) if self.slave.raw.is_empty else self.slave.end_offset
        return SlaveSession(end, self.slave.raw.tail(OVERLAP_BYTES)).report(end)

    def frames(self, report: LogOffset) -> Iterator[bytes]:
        """What the master sends from there on."""
        master = self.master
        at = report or LogOffset(master.end_offset - master.end_offset % master.raw.file_bytes)
        while at < master.end_offset:
            size_bytes = self.chance.choice((1, 50, 300, TRANSFER_BYTES))
            view = master.raw.view(at, LogOffset(min(at + size_bytes, master.end_offset)))
            yield encode_header(at, len(view)) + bytes(view)
            at = LogOffset(at + len(view))

    def disturbed(self, frames: Iterator[bytes]) -> Iterator[bytes]:
        """Some frames are lost, come twice, or say that they are from elsewhere."""
        for frame in frames:
            fate = self.chance.random()
            if fate < 0.02:
                continue
            if fate < 0.04:
                yield frame
            if fate > 0.98:
                at = self.chance.randrange(8)
                yield frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]
                continue
            yield frame


def run_seed(directory: Path, seed: int) -> int:
    """One run, and everything that must be so after it; tells how often the slave refused."""
    pair = SimulatedPair(directory, seed)
    pair.run()
    master, slave = pair.master, pair.slave

    octets = slave.raw.tail(2**40)
    assert slave.end_offset == master.end_offset
    assert master.raw.tail(2**40).endswith(octets)
    start = slave.end_offset - len(octets)
    assert start % SMALL.commit_log_file_bytes == 0
    ends = {(span.topic, span.queue_id): span.stop for span in master.queues()}
    for span in slave.queues():
        assert span.stop == ends[span.topic, span.queue_id], span
    slave.close()
    master.close()
    report = check_store(Disk(), directory / "slave", SMALL)
    assert report.is_good, report
    return pair.mismatches
