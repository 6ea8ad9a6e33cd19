"""Hostile clients of the gRPC port: resets, floods, bombs, slow ones, and a crowd that is idle.

The proxy runs in the process of the broker, so the client beside, which speaks the remoting
protocol, feels what they cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("google.protobuf", reason="protobuf is not installed")

from flintmq.protocol.http2 import h2_frames as frames
from flintmq.protocol.http2.h2_frames import FrameKind, H2Error, Setting
from support.attack.arena import Arena
from support.attack.beside import TOPIC
from support.attack.grpc_peers import (
    HELLO,
    GrpcPeer,
    IdleClient,
    Sender,
    asking,
    path,
    receive,
    said,
)
from support.attack.peers import Peer, asked
from support.attack.said import CREATE_TOPIC, topic_fields
from support.attack.victim import MB, serving, until
from support.cli.serving import ANYWHERE
from support.net.h2_client import begin, data, frame, message, text
from support.proxy.grpc_client import message as sending

OPTIONS = ("--grpc", ANYWHERE)
pytestmark = pytest.mark.usefixtures("descriptors")

CONFIG = f"connectionsMax=3000\nunreadBytesMax={64 * MB}\n"
"""One address may have 1,500 connections; the limits are those of the broker's own port."""

PER_ADDRESS = 1_500
PING = frame(FrameKind.PING, 0, 0, bytes(8))
TALKING = begin(1, path("Telemetry"), said("talks"))
GROUPS = 25
IDLE = 1_000
SENDS = 300
LATE_FACTOR, P50_MS, P99_MS = 5.0, 5.0, 100.0
"""A send beside the crowd: so many times slower, or so slow on a busy machine."""

CLIENT_KB = 40
"""Memory of an idle client: its connection, its stream, its place among the members."""


@contextmanager
def crowd(address: str, count: int) -> Iterator[list[Peer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Peer(address)) for _ in range(count)]


def served(arena: Arena) -> None:
    """Another gRPC client sends a message."""
    with Sender(arena.grpc, TOPIC) as sender:
        sender.send_ms()


def test_rapid_resets_end_the_connection_and_leave_few_pops(arena: Arena) -> None:
    """CVE-2023-44487 with receives, which a broker would hold for 20 s each."""
    request = receive(TOPIC, "resetting")
    with arena.attack("gRPC: 10 x 5,000 receives, reset at once", cpu_s=20, grow_mb=150):
        for number in range(10):
            with GrpcPeer(arena.grpc) as peer:
                for first in range(1, 10_001, 200):
                    many = b"".join(
                        asking(each, "ReceiveMessage", request, f"resets@{number}")
                        + frames.reset(each, H2Error.CANCEL)
                        for each in range(first, first + 200, 2)
                    )
                    if not peer.say(many):
                        break
                assert peer.farewell() in (H2Error.ENHANCE_YOUR_CALM, None)
        served(arena)


FLOODS = {
    "pings": PING * 10_000,
    "settings": frames.settings({Setting.INITIAL_WINDOW_SIZE: 5}) * 10_000,
    "empty data": data(1, b"") * 10_000,
    "permissions": frames.window_update(1, 1) * 10_000,
    "orders": frame(FrameKind.PRIORITY, 0, 1, bytes(5)) * 10_000,
}


@pytest.mark.parametrize("name", FLOODS)
def test_floods_of_frames_that_carry_nothing_end_their_connection(arena: Arena, name: str) -> None:
    with arena.attack(f"gRPC: 4 x 1,000,000 {name}", cpu_s=10, grow_mb=60):
        for _ in range(4):
            with GrpcPeer(arena.grpc) as peer:
                peer.say(TALKING)
                peer.socket.settimeout(5)
                said_all = all(peer.say(FLOODS[name]) for _ in range(100))
                assert not said_all, "it is read without end"
        served(arena)


BLOCKS = {
    "bombs of 12,000 fields": frame(
        FrameKind.HEADERS,
        frames.END_HEADERS | frames.END_STREAM,
        1,
        b"\x40" + text("x") + text("v" * 4_000) + b"\xbe" * 12_000,
    ),
    "blocks without end": frame(FrameKind.HEADERS, 0, 1)
    + frame(FrameKind.CONTINUATION, 0, 1, bytes(16_384)) * 100,
    "blocks of nothing without end": frame(FrameKind.HEADERS, 0, 1)
    + frame(FrameKind.CONTINUATION, 0, 1) * 200_000,
}


@pytest.mark.parametrize("name", BLOCKS)
def test_header_blocks_beyond_reason_end_their_connection(arena: Arena, name: str) -> None:
    with arena.attack(f"gRPC: 100 {name}", cpu_s=25, grow_mb=60):
        for _ in range(100):
            with GrpcPeer(arena.grpc) as peer:
                peer.say(BLOCKS[name])
                assert peer.farewell() in (H2Error.ENHANCE_YOUR_CALM, None)
        served(arena)


def test_metadata_that_is_too_large_ends_its_call_alone(arena: Arena) -> None:
    large = {**said("large"), "x-large": "v" * 16_000, "x-more": "w" * 1_000}
    with (
        arena.attack("gRPC: 90 calls with 17 kB of metadata", cpu_s=5, grow_mb=30),
        GrpcPeer(arena.grpc) as peer,
    ):
        for each in range(1, 181, 2):
            opened = begin(each, path("Heartbeat"), large)
            block = opened[frames.HEAD_BYTES :]
            peer.say(frame(FrameKind.HEADERS, 0, each, block[:16_000]))
            peer.say(frame(FrameKind.CONTINUATION, frames.END_HEADERS, each, block[16_000:]))
            assert peer.answered(each)["grpc-status"] == "8"
        served(arena)


def test_slow_peers_hold_up_nobody(arena: Arena) -> None:
    """Half of a preface, of a frame, of a header block and of a message, a byte at a time."""
    whole = HELLO + TALKING + data(1, message(bytes(10_000)))
    block = HELLO + frame(FrameKind.HEADERS, 0, 1, bytes(1_000))
    with (
        arena.attack("gRPC: 800 that send a byte at a time", cpu_s=15, grow_mb=100),
        crowd(arena.grpc, 800) as peers,
    ):
        for number, peer in enumerate(peers):
            part = (HELLO[:10], whole[:200], block[:500], whole[:1_000])[number % 4]
            peer.say(part)
        for at in range(20):
            for number, peer in enumerate(peers):
                rest = (HELLO[10:], whole[200:], block[500:], whole[1_000:])[number % 4]
                peer.say(rest[at : at + 1])
        served(arena)


def test_receives_that_are_not_read_have_a_limit(arena: Arena) -> None:
    """A pop of each group brings 1 MB; beyond 64 MB of all, who left the most is cut."""
    asked(arena.broker, CREATE_TOPIC, topic_fields("unread", 1))
    large = bytes(MB)
    with GrpcPeer(arena.grpc) as sender:
        for each in range(8):
            sender.say(frames.window_update(0, 10_000))
            sender.say(asking(2 * each + 1, "SendMessage", sending("unread", large), "large"))
            assert sender.answered(2 * each + 1)["grpc-status"] == "0"
    name = f"gRPC: {3 * GROUPS} receives that are not read"
    with arena.attack(name, cpu_s=25, grow_mb=300, keep_mb=80), ExitStack() as stack:
        peers = [stack.enter_context(GrpcPeer(arena.grpc)) for _ in range(3)]
        for number, peer in enumerate(peers):
            peer.say(frames.settings({Setting.INITIAL_WINDOW_SIZE: 0}))
            for each in range(GROUPS):
                request = receive("unread", f"unread-{number}-{each}")
                peer.say(asking(2 * each + 1, "ReceiveMessage", request, f"deaf@{number}"))
        assert any(peer.is_cut(5) for peer in peers)
        served(arena)
    cut = b"unreadBytesPerConnectionMax"  # of the connection that all clients of the proxy share
    assert cut not in arena.victim.log()


def test_one_address_does_not_take_all_connections(arena: Arena) -> None:
    name = f"gRPC: {PER_ADDRESS + 200:,} connections of one address"
    with (
        arena.attack(name, cpu_s=15, grow_mb=150, keep_mb=60),
        crowd(arena.grpc, PER_ADDRESS + 200) as peers,
    ):
        assert peers[-1].is_cut(20), "one address may have them all"
        with Sender(arena.grpc, TOPIC, source="127.0.0.2") as stranger:
            stranger.send_ms()


def part(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def test_a_thousand_idle_clients_cost_little_and_are_told_of_a_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has its telemetry stream open and sends a heartbeat every ten seconds."""
    with serving(tmp_path, *OPTIONS) as victim, ExitStack() as stack:
        asked(victim.broker, CREATE_TOPIC, topic_fields(TOPIC, 4))
        sender = stack.enter_context(Sender(victim.grpc, TOPIC))
        sender.sends_ms(SENDS)
        alone = sender.sends_ms(SENDS)
        before_mb = victim.memory_mb()
        clients = [
            stack.enter_context(IdleClient(victim.grpc, each, topic=TOPIC, group="idle"))
            for each in range(IDLE)
        ]
        assert all(client.is_known() for client in clients)
        after_mb = victim.memory_mb()
        start_s = victim.cpu_s()
        until(lambda: False, 10)  # the time is what is measured
        quiet_s = victim.cpu_s() - start_s
        beside = sender.sends_ms(SENDS)
        start_s = victim.cpu_s()
        for client in clients:
            client.beat()
        assert all(client.is_beating() for client in clients)
        beat_s = victim.cpu_s() - start_s
        client_kb = (after_mb - before_mb) * 1024 / IDLE
        with capsys.disabled():
            print(
                f"\n{IDLE} idle gRPC clients: {client_kb:.1f} kB each, {quiet_s * 10:.1f} % of a "
                f"CPU without heartbeats, {beat_s:.2f} s of CPU for a heartbeat of each; sends "
                f"p50/p99 {part(beside, 0.5):.2f} / {part(beside, 0.99):.2f} ms, without them "
                f"{part(alone, 0.5):.2f} / {part(alone, 0.99):.2f} ms"
            )
        assert client_kb <= CLIENT_KB
        assert quiet_s <= 1.0, f"{quiet_s:.2f} s of CPU in 10 s"
        assert part(beside, 0.5) <= max(P50_MS, LATE_FACTOR * part(alone, 0.5))
        assert part(beside, 0.99) <= max(P99_MS, LATE_FACTOR * part(alone, 0.99))
        assert victim.stop() == 0
        for client in clients:
            assert client.answered(1)["grpc-status"] == "0"
            assert client.farewell() == H2Error.NO_ERROR
        victim.check_log()
