"""The broker on real sockets: turns, group commit, stopping, and peers that misbehave.

Everything here goes through a connection, as a client's requests do.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from threading import current_thread

import pytest

from flintmq.broker import log_syncs, server
from flintmq.broker.admin.runtime_info import runtime_table
from flintmq.broker.server import BrokerServer
from flintmq.errors import DiskFailed, InvalidSetting, StoreLocked, Unreachable
from flintmq.net.channels.channel import Channel
from flintmq.net.loop import run
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, answer, request
from flintmq.protocol.fields import Header
from flintmq.protocol.frame import Frame, FrameReader
from flintmq.protocol.headers.common_headers import OfQueue
from flintmq.protocol.headers.offset import (
    OffsetAnswer,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from flintmq.protocol.headers.pull import PullAnswer
from flintmq.protocol.headers.send import SendAnswer, SendMessageV2
from flintmq.protocol.wire import decode_command, encode_command
from flintmq.store.files.disk import Disk
from flintmq.store.message_log import MessageLog
from support.broker.servers import (
    ASYNC,
    DEADLINE_S,
    LOOPBACK,
    SYNC,
    SlowDisk,
    bodies_of,
    connected,
    pulling,
    sending,
    serving,
)
from support.broker.world import SMALL_STORE
from support.net.support import until
from support.store.refusing_disk import RefusingDisk


def test_what_is_sent_is_pulled(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as broker:
            channel = await connected(broker)

            sent = await channel.call(sending(b"one"), 5_000)
            pulled = await channel.call(pulling(0), 5_000)

            assert sent.code == 0
            assert sent.header(SendAnswer).queue_offset == 0
            assert pulled.code == 0
            assert bodies_of(pulled) == [b"one"]
            assert pulled.header(PullAnswer).next_begin_offset == 1
            await channel.close(0)

    run(main())


def test_a_held_pull_is_answered_when_a_message_arrives(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as broker:
            producer, consumer = await connected(broker), await connected(broker)
            await producer.call(sending(b"one"), 5_000)
            waiting = asyncio.ensure_future(consumer.call(pulling(1, suspend_ms=60_000), 5_000))
            await until(lambda: len(broker.state.held) == 1)

            await producer.call(sending(b"two"), 5_000)
            pulled = await waiting

            assert bodies_of(pulled) == [b"two"]
            assert len(broker.state.held) == 0
            await asyncio.gather(producer.close(0), consumer.close(0))

    run(main())


def test_a_held_pull_is_forgotten_when_its_connection_closes(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as broker:
            channel = await connected(broker)
            await channel.call(sending(), 5_000)
            waiting = asyncio.ensure_future(channel.call(pulling(1, suspend_ms=60_000), 60_000))
            await until(lambda: len(broker.state.held) == 1)

            await channel.close(0)

            await until(lambda: len(broker.state.held) == 0)
            with pytest.raises(Unreachable):
                await waiting

    run(main())


def test_with_sync_flush_a_send_is_answered_only_when_it_is_durable(tmp_path: Path) -> None:
    disk = SlowDisk()

    async def main() -> None:
        async with serving(tmp_path, SYNC, disk=disk) as broker:
            channel = await connected(broker)
            await channel.call(sending(), 5_000)  # makes the topic and its files
            disk.may_sync.clear()

            waiting = [asyncio.ensure_future(channel.call(sending(), 9_000)) for _ in range(20)]
            await until(lambda: broker.state.unsynced_count > 0)
            pulled = await channel.call(pulling(0), 5_000)
            were_done = [each.done() for each in waiting]
            disk.may_sync.set()
            answers = await asyncio.gather(*waiting)

            assert pulled.code == 0, "readers do not wait for the medium"
            assert not any(were_done)
            assert all(reply.code == 0 for reply in answers)
            assert broker.state.unsynced_count == 0
            assert broker.state.unsynced_bytes == 0
            await channel.close(0)

    run(main())


def test_the_parser_of_filters_is_loaded_before_anybody_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading it takes longer than any request may."""
    loaded_by: list[str] = []
    monkeypatch.setattr(server, "load_parser", lambda: loaded_by.append(current_thread().name))

    async def main() -> None:
        async with serving(tmp_path, SYNC):
            pass

    run(main())

    (name,) = loaded_by
    assert name != current_thread().name


def test_a_sync_that_fails_refuses_the_sends_that_waited_for_it(tmp_path: Path) -> None:
    disk = RefusingDisk()

    async def main() -> None:
        async with serving(tmp_path, SYNC, disk=disk) as broker:
            channel = await connected(broker)
            await channel.call(sending(), 5_000)
            disk.changes_left = 1  # the record is written; then the disk is full

            refused = await channel.call(sending(), 5_000)
            disk.changes_left = None
            accepted = await eventually_accepted(channel)

            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "service not available now" in (refused.remark or "")
            assert str(tmp_path) not in (refused.remark or "")
            assert accepted.code == 0
            await channel.close(0)

    run(main())


async def eventually_accepted(channel: Channel) -> Command:
    """Send until the store takes it again."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            reply = await channel.call(sending(), 5_000)
            if reply.code == 0:
                return reply


def test_a_full_disk_refuses_sends_and_goes_on_serving_reads(tmp_path: Path) -> None:
    disk = RefusingDisk()

    async def main() -> None:
        async with serving(tmp_path, disk=disk) as broker:
            channel = await connected(broker)
            await channel.call(sending(b"kept"), 5_000)
            disk.changes_left = 0

            refused = await channel.call(sending(b"lost"), 5_000)
            pulled = await channel.call(pulling(0), 5_000)
            disk.changes_left = None
            accepted = await eventually_accepted(channel)

            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "No space left" in (refused.remark or "")
            assert bodies_of(pulled) == [b"kept"]
            assert accepted.header(SendAnswer).queue_offset == 1
            await channel.close(0)

    run(main())


def is_saved(directory: Path, topic: str) -> bool:
    table = directory / "config" / "topics.json"
    return table.is_file() and f'"{topic}"' in table.read_text()


def test_a_topic_is_saved_when_it_is_made_and_not_at_the_next_regular_save(tmp_path: Path) -> None:
    rarely = replace(ASYNC, save_offsets_ms=3_600_000)

    async def main() -> None:
        async with serving(tmp_path, rarely) as broker:
            channel = await connected(broker)

            await channel.call(sending(topic="first"), 5_000)
            await until(lambda: is_saved(tmp_path, "first"))
            await channel.call(sending(topic="second"), 5_000)
            await until(lambda: is_saved(tmp_path, "second"))

            await channel.close(0)

    run(main())


def test_a_topic_that_could_not_be_saved_is_saved_at_the_next_regular_save(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = RefusingDisk()
    often = replace(ASYNC, save_offsets_ms=100)

    async def main() -> None:
        async with serving(tmp_path, often, disk=disk) as broker:
            channel = await connected(broker)
            await until(lambda: is_saved(tmp_path, "TBW102") and not broker.state.has_new_names)
            disk.changes_left = 0
            await channel.call(sending(topic="mine"), 5_000)
            await until(lambda: "names are not saved" in caplog.text)

            disk.changes_left = None
            await until(lambda: is_saved(tmp_path, "mine"))

            await channel.close(0)

    run(main())


def test_stopping_answers_held_pulls_and_keeps_what_was_sent(tmp_path: Path) -> None:
    async def main() -> None:
        broker = await BrokerServer.start(tmp_path, ASYNC, listen=LOOPBACK)
        channel = await connected(broker)
        await channel.call(sending(b"one"), 5_000)
        await channel.call(pulling(0), 5_000)  # makes the group known
        committed = await channel.call(commit("g", 1), 5_000)
        waiting = asyncio.ensure_future(channel.call(pulling(1, suspend_ms=60_000), 60_000))
        await until(lambda: len(broker.state.held) == 1)

        await broker.stop()
        held = await waiting
        await channel.close(0)

        assert committed.code == 0
        assert held.code == ResponseCode.PULL_NOT_FOUND
        async with serving(tmp_path) as again:
            channel = await connected(again)
            pulled = await channel.call(pulling(0), 5_000)
            where = await channel.call(offset_of("g"), 5_000)
            await channel.close(0)
            assert bodies_of(pulled) == [b"one"]
            assert where.header(OffsetAnswer).offset == 1

    run(main())


def commit(group: str, offset: int) -> Command:
    header = UpdateConsumerOffset(consumer_group=group, topic="T", queue_id=0, commit_offset=offset)
    return request(RequestCode.UPDATE_CONSUMER_OFFSET, header)


def offset_of(group: str) -> Command:
    header = QueryConsumerOffset(consumer_group=group, topic="T", queue_id=0)
    return request(RequestCode.QUERY_CONSUMER_OFFSET, header)


def test_stopping_waits_for_a_thorough_sync_of_many_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_syncs, "ROUND_FILES", 1)

    async def scene() -> None:
        async with serving(tmp_path) as broker:
            channel = await connected(broker)
            for number in range(50):
                await channel.call(sending(topic=f"T{number}"), 5_000)
            broker.sync_soon(thorough=True)
            assert broker.state.log.round.left

    run(scene())

    assert not (tmp_path / "abort").exists()
    log = MessageLog.open(tmp_path, SMALL_STORE, process_id=1)
    assert [log.max_offset(f"T{number}", 0) for number in range(50)] == [1] * 50
    log.close()


def test_a_directory_serves_one_broker_at_a_time(tmp_path: Path) -> None:
    disk = Disk()
    held = MessageLog.open(tmp_path, SMALL_STORE, process_id=1, disk=disk)
    held.close()

    async def main() -> None:
        async with serving(tmp_path) as broker:
            taken = broker.address
            with pytest.raises((StoreLocked, InvalidSetting)):
                await BrokerServer.start(tmp_path, ASYNC, listen=taken)

    run(main())


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.SEND_MESSAGE_V2, None),
        (RequestCode.PULL_MESSAGE, OfQueue(topic="T", queue_id=1)),
        (RequestCode.GET_MAX_OFFSET, None),
    ],
)
def test_a_request_with_missing_fields_is_refused_and_the_connection_goes_on(
    tmp_path: Path, code: RequestCode, fields: Header | None
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as broker:
            channel = await connected(broker)

            refused = await channel.call(request(code, fields), 5_000)
            unknown = await channel.call(request(987_654), 5_000)

            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert "is missing" in (refused.remark or "")
            assert unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert unknown.remark == " request type 987654 not supported"
            await channel.close(0)

    run(main())


def test_bytes_that_are_no_frame_end_that_connection_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as broker:
            channel = await connected(broker)
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.address.port)

            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            ended = await asyncio.wait_for(reader.read(), DEADLINE_S)
            sent = await channel.call(sending(), 5_000)

            assert ended == b""
            assert sent.code == 0
            writer.close()
            await channel.close(0)

    run(main())


def test_oneway_requests_are_served_and_never_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as broker:
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.address.port)
            oneway = request(
                RequestCode.SEND_MESSAGE_V2,
                sending().header(SendMessageV2),
                b"quiet",
                oneway=True,
                opaque=1,
            )
            unknown = request(987_654, oneway=True, opaque=2)
            last = request(RequestCode.GET_MAX_OFFSET, OfQueue(topic="T", queue_id=0), opaque=3)

            writer.write(encode_command(oneway) + encode_command(unknown))
            await until(lambda: broker.state.log.max_offset("T", 0) == 1)
            writer.write(encode_command(last))
            frames: list[Frame] = []
            frame_reader = FrameReader()
            while not frames:
                frames = frame_reader.feed(await asyncio.wait_for(reader.read(4096), DEADLINE_S))

            assert [decode_command(frame).opaque for frame in frames] == [3]
            writer.close()

    run(main())


def test_many_connections_share_one_turn(tmp_path: Path) -> None:
    """Requests that arrive together are written together."""

    async def main() -> None:
        async with serving(tmp_path) as broker:
            channels = [await connected(broker) for _ in range(16)]
            await channels[0].call(sending(), 5_000)
            writes = 0
            write = broker.state.log.write

            def counted() -> object:
                nonlocal writes
                writes += 1
                return write()

            broker.state.log.write = counted  # type: ignore[method-assign,assignment]
            calls: list[Awaitable[Command]] = [
                channel.call(sending(), 5_000) for channel in channels for _ in range(8)
            ]
            answers = await asyncio.gather(*calls)

            assert all(reply.code == 0 for reply in answers)
            assert writes < len(answers) / 4
            await asyncio.gather(*(channel.close(0) for channel in channels))

    run(main())


def test_a_request_of_the_broker_reaches_its_client(tmp_path: Path) -> None:
    async def main() -> None:
        asked: list[int] = []
        replies: list[Command | None] = []

        def handler(command: Command, _channel: Channel) -> Command:
            asked.append(command.code)
            return answer(command, 0, remark="here")

        async with serving(tmp_path) as broker:
            channel = await connected(broker, handler)
            await channel.call(sending(), 5_000)
            (peer,) = broker.peers

            broker.ask_client(peer, request(307), 5_000, replies.append)
            await until(lambda: bool(replies))
            await channel.close(0)
            await until(lambda: not broker.peers)
            broker.ask_client(peer, request(307), 5_000, replies.append)
            await until(lambda: len(replies) == 2)

            assert asked == [307]
            assert replies[0] is not None
            assert replies[0].remark == "here"
            assert replies[1] is None, "nobody is there to answer"

    run(main())


class BrokenDisk(Disk):
    """The real disk until it is told to break for good."""

    is_broken = False

    def sync(self, path: Path) -> None:
        if self.is_broken:
            raise DiskFailed(str(path), "sync", "Input/output error", errno.EIO)
        super().sync(path)


def test_after_a_sync_that_failed_for_good_nothing_is_acknowledged_and_the_server_says_so(
    tmp_path: Path,
) -> None:
    disk = BrokenDisk()

    async def main() -> None:
        async with serving(tmp_path, SYNC, disk=disk) as broker:
            channel = await connected(broker)
            await channel.call(sending(b"kept"), 5_000)
            disk.is_broken = True

            refused = [await channel.call(sending(), 5_000)]
            disk.is_broken = False
            refused += [await channel.call(sending(), 5_000) for _ in range(3)]
            async with asyncio.timeout(DEADLINE_S):
                await broker.failed.wait()
            pulled = await channel.call(pulling(0), 5_000)

            assert {reply.code for reply in refused} == {ResponseCode.SERVICE_NOT_AVAILABLE}
            assert all("start again" in (reply.remark or "") for reply in refused)
            assert bodies_of(pulled)[0] == b"kept"
            await channel.close(0)

    with pytest.raises(DiskFailed, match="start again"):
        run(main())


def test_saves_that_fail_are_counted_and_tried_again(tmp_path: Path) -> None:
    disk = RefusingDisk()
    often = replace(ASYNC, save_offsets_ms=100)

    async def main() -> None:
        async with serving(tmp_path, often, disk=disk) as broker:
            channel = await connected(broker)
            await channel.call(sending(), 5_000)
            await until(lambda: is_saved(tmp_path, "T") and not broker.state.has_new_names)
            disk.changes_left = 0
            committed = await channel.call(commit("TOOLS_CONSUMER", 1), 5_000)
            assert committed.code == ResponseCode.SUCCESS
            await until(lambda: broker.state.failed_saves >= 2)

            disk.changes_left = None
            table = tmp_path / "config" / "consumerOffset.json"
            await until(lambda: table.is_file() and b"T@TOOLS_CONSUMER" in table.read_bytes())

            assert int(runtime_table(broker.state, broker.now_ms())["failedSaves"]) >= 2
            await channel.close(0)

    run(main())
