"""A broker stops within its limit, whatever hangs, and refuses what is too long."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flintmq.broker.server import BrokerServer
from flintmq.errors import DiskFailed
from flintmq.net.loop import run
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from support.broker.servers import ASYNC, LOOPBACK, SYNC, SlowDisk, connected, sending, serving
from support.net.support import until


async def stopped(broker: BrokerServer) -> BaseException | None:
    """Stop, and give what came of it; fail when it does not end."""
    stopping = asyncio.ensure_future(broker.stop())
    done, _ = await asyncio.wait([stopping], timeout=30)
    assert done, "the stop does not end"
    return stopping.exception()


def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit_ms in {"STOP_MS": 50, "STOP_LIMIT_MS": 500, "LEAVE_MS": 50}.items():
        monkeypatch.setattr(f"flintmq.broker.server.{name}", limit_ms)


def test_a_disk_that_hangs_is_cut_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    short_limits(monkeypatch)
    disk = SlowDisk()

    async def main() -> None:
        broker = await BrokerServer.start(tmp_path, SYNC, listen=LOOPBACK, disk=disk)
        channel = await connected(broker)
        await channel.call(sending(), 5_000)
        disk.may_sync.clear()
        waiting = asyncio.ensure_future(channel.call(sending(), 9_000))
        await until(lambda: broker.state.unsynced_count > 0)

        failure = await stopped(broker)

        disk.may_sync.set()
        assert isinstance(failure, DiskFailed)
        assert "closing the store did not end within" in caplog.text
        await asyncio.gather(waiting, return_exceptions=True)
        await channel.close(0)

    run(main())


def test_a_task_that_ignores_its_end_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("flintmq.broker.server.CUT_MS", 50)

    async def main() -> None:
        broker = await BrokerServer.start(tmp_path, ASYNC, listen=LOOPBACK)
        may_end = asyncio.Event()

        async def stubborn() -> None:
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    continue

        broker._spawn(stubborn())
        await asyncio.sleep(0)

        failure = await stopped(broker)

        may_end.set()
        assert failure is None
        assert "ending tasks did not end within" in caplog.text

    run(main())
    assert not (tmp_path / "abort").exists()


def test_settings_that_are_too_long_are_refused_with_a_reason(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as broker:
            channel = await connected(broker)

            reply = await channel.call(
                request(RequestCode.UPDATE_BROKER_CONFIG, body=b"a=b\n" * 100_000), 5_000
            )

            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert "the body of request 25 has 400000 bytes" in (reply.remark or "")
            await channel.close()

    run(main())


def test_stalls_of_the_loop_are_shown_to_tools(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as broker:
            broker.state.stalls.record(0.5, "a test")
            channel = await connected(broker)

            reply = await channel.call(request(RequestCode.GET_BROKER_RUNTIME_INFO), 5_000)

            table = KvTable.from_body(reply.body).table
            assert int(table["loopStalls"]) >= 1
            assert int(table["loopStallMaxMillis"]) >= 500
            await channel.close()

    run(main())
