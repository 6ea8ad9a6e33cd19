"""Our master sends real slaves what real masters send: the same log in frames of the same shape.

The log and the reports are those of the sessions in ``golden/ha``.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.model.queue import LogOffset
from flintmq.net.loop import run
from flintmq.protocol.replication.ha_frames import HEADER, TRANSFER_BYTES, encode_report
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from support.broker.servers import serving
from support.replication.ha_sessions import RELEASES, HaSession, ha_session
from support.replication.pairs import PATIENCE_S, QUICK, ha_address, master_config, until
from support.store.stored import START_MS


def store_of(session: HaSession) -> StoreConfig:
    return StoreConfig(
        commit_log_file_bytes=session.file_bytes,
        queue_file_bytes=20_000,
        index_slots=100,
        index_entries=500,
        message_bytes_max=32 * 1024,
    )


def write_store(directory: Path, session: HaSession) -> None:
    """The store of the real master, as far as its slave got it."""
    start, octets = session.log_from()
    log = MessageLog.open(directory, store_of(session), process_id=1)
    log.raw.begin_at(LogOffset(start))
    while octets and (taken := log.raw.append(octets, START_MS)):
        log.write()
        octets = octets[taken:]
    log.close()


async def frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The next frame: where its bytes lie, and the bytes; none for a heartbeat."""
    async with asyncio.timeout(PATIENCE_S):
        start, size_bytes = HEADER.unpack(await reader.readexactly(HEADER.size))
        return start, await reader.readexactly(size_bytes)


async def frames_up_to(
    reader: asyncio.StreamReader, start: int, stop: int
) -> list[tuple[int, bytes]]:
    """The frames with data, which must follow each other from ``start`` to ``stop``."""
    found: list[tuple[int, bytes]] = []
    while start < stop:
        at, octets = await frame(reader)
        assert at == start
        if octets:
            found.append((at, octets))
        start += len(octets)
    assert start == stop
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_a_new_slave_gets_the_last_file_and_one_that_was_there_goes_on(
    tmp_path: Path, release: str
) -> None:
    session = ha_session(release)
    first, second = (int.from_bytes(session.from_slave[number][:8]) for number in (0, 1))
    begin, octets = session.log_from()
    assert first == 0
    write_store(tmp_path, session)

    async def scene() -> None:
        config = master_config(store=store_of(session))
        async with serving(tmp_path, config) as master:
            host, _, port = ha_address(master).rpartition(":")
            last_file = session.end - session.end % session.file_bytes
            inside = begin + 77  # of a record
            for report, expected in ((first, last_file), (second, second), (inside, inside)):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(encode_report(LogOffset(report)))

                found = await frames_up_to(reader, expected, session.end)

                assert b"".join(data for _, data in found) == octets[expected - begin :]
                for at, data in found:
                    assert len(data) <= TRANSFER_BYTES
                    assert at // session.file_bytes == (at + len(data) - 1) // session.file_bytes
                assert await frame(reader) == (session.end, b"")  # a heartbeat
                writer.close()

    run(scene())


def test_reports_may_come_byte_by_byte_and_the_last_whole_one_counts(tmp_path: Path) -> None:
    session = ha_session("4.9.7")
    write_store(tmp_path, session)

    async def scene() -> None:
        async with serving(tmp_path, master_config(store=store_of(session))) as master:
            host, _, port = ha_address(master).rpartition(":")
            _, writer = await asyncio.open_connection(host, int(port))
            stream = b"".join(
                encode_report(LogOffset(each)) for each in (0, session.end - 9, session.end - 1)
            )
            for octet in stream + b"\0\0\0":
                writer.write(bytes([octet]))
                await writer.drain()
                await asyncio.sleep(0)

            await until(lambda: master.state.slaves.stored_to(1) == session.end - 1)
            writer.close()

    run(scene())


def test_with_flow_control_a_slave_gets_its_share_of_a_second_and_in_the_end_everything(
    tmp_path: Path,
) -> None:
    session = ha_session("5.3.3")
    begin, octets = session.log_from()
    write_store(tmp_path, session)

    async def scene() -> None:
        replication = replace(QUICK, has_flow_control=True, flow_bytes_a_second=10_000)
        config = master_config(store=store_of(session), replication=replication)
        async with serving(tmp_path, config) as master:
            host, _, port = ha_address(master).rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            start = session.end - 25_000
            writer.write(encode_report(LogOffset(start)))

            found = await frames_up_to(reader, start, session.end)

            assert b"".join(data for _, data in found) == octets[start - begin :]
            assert max(len(data) for _, data in found) <= 10_000
            assert len(found) >= 3
            writer.close()

    run(scene())


def test_a_slave_that_does_not_report_is_closed(tmp_path: Path) -> None:
    async def scene() -> None:
        replication = replace(QUICK, silence_ms=300)
        async with serving(tmp_path, master_config(replication=replication)) as master:
            host, _, port = ha_address(master).rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(encode_report(LogOffset(0)))

            async with asyncio.timeout(PATIENCE_S):
                with suppress(ConnectionError):
                    while await reader.read(65_536):
                        pass

            await until(lambda: not master.state.slaves.slaves)
            writer.close()

    run(scene())
