"""A real session, sent to our slave's machine and store, with the connection lost many times."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from flintmq.core.replication.slave_session import OVERLAP_BYTES, SlaveSession
from flintmq.model.queue import LogOffset
from flintmq.protocol.replication.ha_frames import TRANSFER_BYTES, PieceReader, encode_header
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from support.replication.ha_sessions import HaSession
from support.store.stored import START_MS


def master_stream(session: HaSession, report: int) -> Iterator[bytes]:
    """What a master sends to a slave that reports: frames that end with their file."""
    start, octets = session.log_from()
    at = report or start
    while at < session.end:
        stop = min(at + TRANSFER_BYTES, at - at % session.file_bytes + session.file_bytes)
        piece = octets[at - start : min(stop, session.end) - start]
        yield encode_header(LogOffset(at), len(piece)) + piece
        at += len(piece)


def connect(log: MessageLog, stream: Iterator[bytes], left: int | None) -> int:
    """Take a stream until it ends, or is cut after ``left`` bytes; tell how many came."""
    end = LogOffset(0) if log.raw.is_empty else log.end_offset
    session = SlaveSession(end, log.raw.tail(OVERLAP_BYTES))
    reader = PieceReader()
    waiting = b""
    came = 0
    for frame in stream:
        data = frame if left is None else frame[: left - came]
        came += len(data)
        for piece in reader.feed(data):
            was_empty = session.is_empty
            waiting += session.receive(piece)
            if was_empty:
                log.raw.begin_at(piece.start)
        while waiting and (taken := log.raw.append(waiting, START_MS)):
            waiting = waiting[taken:]
        log.write()
        if came == left:
            break
    return came


def run_with_cuts(directory: Path, session: HaSession, step: int) -> None:
    """Lose the connection after every ``step`` bytes; the files must be those of the real slave."""
    config = StoreConfig(
        commit_log_file_bytes=session.file_bytes,
        queue_file_bytes=20_000,
        index_slots=100,
        index_entries=500,
    )
    log = MessageLog.open(directory, config, process_id=1)
    start, _ = session.log_from()
    whole = b"".join(master_stream(session, 0))
    for cut in range(1, len(whole), step):
        end = LogOffset(0) if log.raw.is_empty else log.end_offset
        report = SlaveSession(end, log.raw.tail(OVERLAP_BYTES)).report(end)
        beyond = cut - (max(report, start) - start)
        connect(log, master_stream(session, report), max(1, beyond))
    end = log.end_offset
    report = SlaveSession(end, log.raw.tail(OVERLAP_BYTES)).report(end)
    connect(log, master_stream(session, report), None)
    log.close()

    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (directory / "commitlog").iterdir()
    }
    assert found == session.hashes
