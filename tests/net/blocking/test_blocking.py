"""A blocking client finds lost peers again, unnoticed where it can, and spares dead ones."""

from __future__ import annotations

import socket
import threading
from typing import Self

import pytest

from flintmq.core.conversation import SENT, Call
from flintmq.errors import Unreachable
from flintmq.net.backoff import FIRST_MS
from flintmq.net.blocking import blocking
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.tls import ClientTls
from flintmq.protocol.command import request
from support.net.support import (
    CALL_MS,
    PATIENCE_S,
    HandClock,
    ThreadedPeer,
    closed_port,
    descriptors,
    echo_once,
    read_commands,
    reply,
)

ASK = request(10, body=b"hello")


def test_a_refused_connection_says_so() -> None:
    address = closed_port()

    with pytest.raises(Unreachable) as caught:
        blocking.connect(address)

    assert str(caught.value) == f"{address}: refused: nothing listens there"


def test_what_is_no_address_and_a_name_nobody_knows_are_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look_up(*_args: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    with pytest.raises(Unreachable, match="give host:port"):
        blocking.connect("broker-a")
    with pytest.raises(Unreachable, match="the name is not known"):
        blocking.connect("broker-a:9876")


def test_a_tls_handshake_that_hangs_is_given_up() -> None:
    before = descriptors()
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(Unreachable, match="timed out after 30 ms connecting"),
    ):
        blocking.connect(f"127.0.0.1:{listener.getsockname()[1]}", tls=ClientTls(), timeout_ms=30)

    assert descriptors() <= before


class Restarting:
    """A listener that serves each connection by the next of its functions, on one thread."""

    def __init__(self, *lives: object) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_S)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lives = lives
        self.has_left = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for life in self._lives:
            sock, _ = self._listener.accept()
            with sock:
                sock.settimeout(PATIENCE_S)
                assert callable(life)
                life(sock)
            self.has_left.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE_S)
        self._listener.close()
        assert not self._thread.is_alive()


def test_a_channel_that_the_peer_closed_meanwhile_is_replaced_unnoticed() -> None:
    with Restarting(*[echo_once] * 20) as peer, BlockingChannels() as channels:
        for _ in range(20):
            assert channels.call(peer.address, ASK, CALL_MS).body == b"hello"
            assert peer.has_left.acquire(timeout=PATIENCE_S)


def test_reconnects_leave_no_descriptor_behind() -> None:
    count = 1_000
    with Restarting(*[echo_once] * count) as peer, BlockingChannels() as channels:
        before = descriptors()

        for _ in range(count):
            channels.call(peer.address, ASK, CALL_MS)
            assert peer.has_left.acquire(timeout=PATIENCE_S)
        channels.close()

        assert descriptors() <= before


def test_one_channel_serves_all_calls_to_an_address() -> None:
    def serve(sock: socket.socket) -> None:
        for _ in range(3):
            echo_once(sock)

    with ThreadedPeer(serve) as peer, BlockingChannels() as channels:
        bodies = [channels.call(peer.address, ASK, CALL_MS).body for _ in range(3)]

        assert bodies == [b"hello"] * 3


def test_a_dead_address_is_left_alone_until_its_time_has_come() -> None:
    clock = HandClock()
    address = closed_port()
    with BlockingChannels(clock=clock, chance=lambda: 0.0) as channels:
        with pytest.raises(Unreachable, match=r"refused: nothing listens there$"):
            channels.call(address, ASK, CALL_MS)

        with pytest.raises(Unreachable, match=rf"next attempt in {FIRST_MS} ms"):
            channels.call(address, ASK, CALL_MS)

        clock.now_ms += FIRST_MS
        with pytest.raises(Unreachable, match=r"refused: nothing listens there$"):
            channels.call(address, ASK, CALL_MS)


def test_a_peer_that_takes_the_connection_and_drops_it_counts_as_failed() -> None:
    clock = HandClock()
    with (
        Restarting(lambda sock: None) as peer,
        BlockingChannels(clock=clock, chance=lambda: 0.0) as channels,
    ):
        channels.reach(peer.address)
        assert peer.has_left.acquire(timeout=PATIENCE_S)

        with pytest.raises(Unreachable, match=r"the peer closed the connection.*next attempt in"):
            channels.call(peer.address, ASK, CALL_MS)


def test_a_channel_idle_too_long_is_not_used_again() -> None:
    clock = HandClock()
    with Restarting(echo_once, echo_once) as peer, BlockingChannels(clock=clock) as channels:
        channels.call(peer.address, ASK, CALL_MS)
        first = channels._channels[peer.address]

        clock.now_ms += 120_000
        channels.call(peer.address, ASK, CALL_MS)

        assert first.why_closed == "closed after 120000 ms without traffic"


def test_the_call_of_a_conversation_is_carried_out() -> None:
    def serve(sock: socket.socket) -> None:
        told, asked = read_commands(sock, 2)
        assert told.is_oneway
        reply(sock, asked, b"fine")

    with ThreadedPeer(serve) as peer, BlockingChannels() as channels:
        told = channels.make(Call(peer.address, request(15, oneway=True), CALL_MS))
        asked = channels.make(Call(peer.address, ASK, CALL_MS))

        assert told is SENT
        assert asked.body == b"fine"
