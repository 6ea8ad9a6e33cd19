"""Connections that take room and say little: many, idle, slow, unfinished, and a stalled server.

Findings 7 (connections of a stalled loop are never forgotten, and no stop ends), 11 (16 MB of an
unfinished frame each), 22 (one address takes them all).
"""

from __future__ import annotations

import resource
import signal
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from support.attack.arena import Arena
from support.attack.peers import Peer, asked, frame
from support.attack.victim import MB, serving, until

pytestmark = pytest.mark.usefixtures("descriptors")

PER_ADDRESS = 5_000
"""Half of the 10,000 connections there are: what one address may have."""

STALL_S = 11.0
"""Longer than the ten seconds in which a connection must be admitted."""


@contextmanager
def crowd(address: str, count: int) -> Iterator[list[Peer]]:
    with ExitStack() as stack:
        peers = []
        for _ in range(count):
            try:
                peers.append(stack.enter_context(Peer(address)))
            except OSError:
                break
        yield peers


def test_one_address_does_not_take_all_connections(arena: Arena) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < PER_ADDRESS + 1_500:
        pytest.skip("too few descriptors for the attackers")
    name = f"connections: {PER_ADDRESS + 500:,} idle ones of one address"
    with (
        arena.attack(name, cpu_s=15, grow_mb=250, keep_mb=100),
        crowd(arena.broker, PER_ADDRESS + 500) as peers,
    ):
        assert len(peers) > PER_ADDRESS // 2
        assert peers[-1].is_cut(20), "one address may have them all"
        with Peer(arena.broker, source="127.0.0.2") as stranger:
            answer = stranger.ask(28)
        assert answer is not None, "nobody else is let in"
        assert answer.code == 0


def test_slow_peers_hold_up_nobody(arena: Arena) -> None:
    head = struct.pack(">II", 1_000, 900)
    with (
        arena.attack("connections: 800 that send a byte at a time", cpu_s=15, grow_mb=100),
        crowd(arena.broker, 800) as peers,
    ):
        for peer in peers:
            peer.say(head)
        for _ in range(20):
            for peer in peers:
                peer.say(b" ")


def test_unfinished_frames_share_a_budget_and_are_given_back(arena: Arena) -> None:
    begun = struct.pack(">II", 16 * MB - 4, 100) + bytes(15 * MB)
    name = "connections: 60 with 15 MB of an unfinished frame"
    with arena.attack(name, cpu_s=15, grow_mb=700, keep_mb=120), crowd(arena.broker, 60) as peers:
        for peer in peers:
            peer.say(begun)
    assert asked(arena.broker, 28).code == 0


def test_who_reads_nothing_is_not_served_on(arena: Arena) -> None:
    """26 answers with two kilobytes and more for each frame of two hundred bytes."""
    many = frame(26) * 2_000
    with (
        arena.attack("connections: 4 that ask and never read", cpu_s=40, grow_mb=400, keep_mb=120),
        crowd(arena.broker, 4) as peers,
    ):
        for peer in peers:
            peer.socket.settimeout(2)
            for _ in range(10):
                if not peer.say(many):
                    break


def test_a_stalled_server_forgets_who_came_meanwhile_and_stops(tmp_path: Path) -> None:
    """Stopped in the middle of a rush, so that some are between the accept and their session."""
    over = threading.Event()

    def rush(address: str) -> None:
        while not over.is_set():
            with suppress(OSError), crowd(address, 100):
                pass

    with serving(tmp_path) as victim:
        for _ in range(2):
            threads = [threading.Thread(target=rush, args=(victim.broker,)) for _ in range(4)]
            over.clear()
            for thread in threads:
                thread.start()
            until(lambda: False, 0.5)
            victim.process.send_signal(signal.SIGSTOP)
            try:
                over.set()
                until(lambda: False, STALL_S)  # the time is the attack
            finally:
                victim.process.send_signal(signal.SIGCONT)
            for thread in threads:
                thread.join()
        assert asked(victim.broker, 28).code == 0
        assert victim.stop() == 0
        victim.check_log()
        victim.check_store()
