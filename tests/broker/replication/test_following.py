"""A slave has its master's log, byte for byte, whatever happens to the connection between them.

Real sockets, real files, both sides ours.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from flintmq.broker.server import BrokerServer
from flintmq.core.replication.follow_status import Following
from flintmq.net.loop import run
from flintmq.protocol.codes import ResponseCode
from flintmq.store.files.disk import Disk
from flintmq.store.move_aside import move_aside
from support.broker.servers import LOOPBACK, bodies_of, connected, pulling, serving
from support.replication.pairs import (
    Wire,
    ha_address,
    log_of,
    master_config,
    pair,
    send_all,
    slave_config,
    until,
    until_equal,
)


def test_what_the_master_stores_is_stored_by_the_slave_byte_for_byte(tmp_path: Path) -> None:
    async def scene() -> None:
        async with pair(tmp_path) as (master, slave):
            await send_all(master, 300)  # three files
            await until_equal(master, slave)

            assert log_of(slave) == log_of(master)
            assert slave.state.following.phase is Following.FOLLOWING
            ours, theirs = (set(broker.state.log.queues()) for broker in (slave, master))
            assert ours == theirs

    run(scene())


def test_a_slave_that_comes_late_begins_with_the_masters_last_file(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path / "master", master_config()) as master:
            await send_all(master, 300)
            async with serving(tmp_path / "slave", slave_config(ha_address(master))) as slave:
                await until_equal(master, slave)

                start, octets = log_of(slave)
                assert start > 0
                assert log_of(master)[1].endswith(octets)
                assert start % slave.state.log.raw.file_bytes == 0
                assert slave.state.log.min_offset("T", 0) > 0
                await send_all(master, 10)
                await until_equal(master, slave)
            assert slave.state.log.max_offset("T", 0) == 310

    run(scene())


def test_a_message_can_be_pulled_from_the_slave(tmp_path: Path) -> None:
    async def scene() -> None:
        async with pair(tmp_path) as (master, slave):
            await send_all(master, 1, 8)
            await until_equal(master, slave)
            slave.state.topics.ensure("T", 4, slave.now_ms())
            slave.state.groups.find_or_create("g", slave.now_ms())
            channel = await connected(slave)

            pulled = await channel.call(pulling(0), 60_000)

            assert pulled.code == ResponseCode.SUCCESS
            assert bodies_of(pulled) == [bytes(8)]
            await channel.close(0)

    run(scene())


def test_a_stream_that_is_cut_at_any_byte_goes_on(tmp_path: Path) -> None:
    """Before, in and behind the header of a frame and of a record; `test_cut_sessions` has all."""

    async def scene() -> None:
        async with (
            serving(tmp_path / "master", master_config()) as master,
            Wire(lambda: ha_address(master)) as wire,
        ):
            await send_all(master, 3, 80)
            record = master.state.log.end_offset // 3
            for cut in (1, 11, 12, 13, 16, 100, record + 11, record + 12, 3 * record + 11):
                directory = tmp_path / f"slave{cut}"
                wire.cut_after = cut
                before = wire.connections
                async with serving(directory, slave_config(wire.address)) as slave:
                    await until_equal(master, slave)
                    assert log_of(slave) == log_of(master), cut
                assert wire.connections > before

    run(scene())


def test_cuts_again_and_again_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            serving(tmp_path / "master", master_config()) as master,
            Wire(lambda: ha_address(master)) as wire,
            serving(tmp_path / "slave", slave_config(wire.address)) as slave,
        ):
            for number in range(12):
                wire.cut_after = 70_000 + 1_111 * number
                wire.drop()
                await send_all(master, 20)
            await until_equal(master, slave)

            assert log_of(slave) == log_of(master)
            assert slave.state.log.max_offset("T", 0) == 240

    run(scene())


def test_a_bit_that_flips_on_the_way_is_found_and_asked_for_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            serving(tmp_path / "master", master_config()) as master,
            Wire(lambda: ha_address(master)) as wire,
        ):
            await send_all(master, 3, 80)
            for at in (2, 9, 12, 18, 21, 34, 45, 110):  # frame header; what a record protects
                wire.flip_at = at
                wire.connections = 0
                directory = tmp_path / f"slave{at}"
                async with serving(directory, slave_config(wire.address)) as slave:
                    await until(lambda: wire.connections > 1)
                    await until_equal(master, slave)
                    assert log_of(slave) == log_of(master), at

    run(scene())


def test_a_restarted_slave_goes_on_where_it_ended(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path / "master", master_config()) as master:
            config = slave_config(ha_address(master))
            for _ in range(3):
                async with serving(tmp_path / "slave", config) as slave:
                    await send_all(master, 50)
                    await until_equal(master, slave)
                await send_all(master, 50)
            async with serving(tmp_path / "slave", config) as slave:
                await until_equal(master, slave)

                assert log_of(slave) == log_of(master)

    run(scene())


def test_a_restarted_master_is_found_again(tmp_path: Path) -> None:
    async def scene() -> None:
        masters: list[BrokerServer] = []
        async with Wire(lambda: ha_address(masters[-1])) as wire:
            async with serving(tmp_path / "master", master_config()) as master:
                masters.append(master)
                await send_all(master, 20)
                config = slave_config(wire.address)
                slave = await BrokerServer.start(tmp_path / "slave", config, listen=LOOPBACK)
                await until_equal(master, slave)
            async with serving(tmp_path / "master", master_config()) as again:
                masters.append(again)
                await send_all(again, 20)
                await until_equal(again, slave)

                assert log_of(slave) == log_of(again)
                await slave.stop()

    run(scene())


def test_a_master_with_another_log_is_told_and_nothing_is_overwritten(tmp_path: Path) -> None:
    """It lost its last records and stored others in their place."""

    async def scene() -> None:
        async with pair(tmp_path) as (master, slave):
            await send_all(master, 40)
            await until_equal(master, slave)
            before = log_of(slave)
        async with serving(tmp_path / "other", master_config()) as other:
            await send_all(other, 39)
            async with serving(tmp_path / "slave", slave_config(ha_address(other))) as slave:
                await until(lambda: slave.state.following.phase is Following.STOPPED)
                assert "diverged" in (slave.state.following.reason or "")
                await send_all(other, 5)

                assert log_of(slave) == before
                assert slave.state.following.phase is Following.STOPPED

            with Disk() as disk:
                move_aside(disk, tmp_path / "slave", "aside")
            async with serving(tmp_path / "slave", slave_config(ha_address(other))) as slave:
                await until_equal(other, slave)
                assert log_of(slave) == log_of(other)

    run(scene())


def test_a_master_with_a_shorter_log_is_told_and_nothing_is_cut(tmp_path: Path) -> None:
    async def scene() -> None:
        async with pair(tmp_path) as (master, slave):
            await send_all(master, 10)
            await until_equal(master, slave)
        copy_of(tmp_path / "master", tmp_path / "short")
        async with pair(tmp_path) as (master, slave):
            await send_all(master, 10)
            await until_equal(master, slave)
            before = log_of(slave)
        async with (
            serving(tmp_path / "short", master_config()) as short,
            serving(tmp_path / "slave", slave_config(ha_address(short))) as slave,
        ):
            await until(lambda: slave.state.following.phase is Following.STOPPED)
            assert "shorter" in (slave.state.following.reason or "")
            assert log_of(slave) == before

    run(scene())


def copy_of(directory: Path, to: Path) -> None:
    """Copy a store that is closed."""
    for path in sorted(directory.rglob("*")):
        target = to / path.relative_to(directory)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())


def test_a_slave_behind_retention_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        async with pair(tmp_path) as (master, slave):
            await send_all(master, 100)
            await until_equal(master, slave)
        async with serving(tmp_path / "master", master_config()) as master:
            await send_all(master, 600)
            while master.state.log.extent.start_offset <= slave.state.log.end_offset:
                now_ms = master.now_ms() + 365 * 24 * 3_600_000
                assert master.state.log.retain(now_ms, due=True)
            async with serving(tmp_path / "slave", slave_config(ha_address(master))) as slave:
                await until(lambda: slave.state.following.phase is Following.STOPPED)

                assert "retention" in (slave.state.following.reason or "")
                (reason,) = set(master.state.slaves.refusals.values())
                assert "retention has removed" in reason

    run(scene())


def test_a_slave_waits_until_a_master_is_known(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(tmp_path / "master", master_config()) as master:
            config = replace(slave_config("x:1"), ha_master_address=None)
            async with serving(tmp_path / "slave", config) as slave:
                await until(lambda: slave.state.following.phase is Following.NO_MASTER)
                await send_all(master, 5)

                slave.state.master_ha_address = ha_address(master)

                await until_equal(master, slave)
                assert slave.state.following.master == ha_address(master)

    run(scene())


def test_several_slaves_and_a_slave_of_a_slave_have_the_same_log(tmp_path: Path) -> None:
    async def scene() -> None:
        async with pair(tmp_path) as (master, first):
            second_config = replace(slave_config(ha_address(master)), ha_port=0)
            async with serving(tmp_path / "second", second_config) as second:
                third_config = slave_config(ha_address(second))
                async with serving(tmp_path / "third", third_config) as third:
                    await send_all(master, 100)
                    await asyncio.gather(
                        *(until_equal(master, each) for each in (first, second, third))
                    )

                    assert log_of(first) == log_of(second) == log_of(third) == log_of(master)

    run(scene())
