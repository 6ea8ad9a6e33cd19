"""Without a loop, too, every call ends in an answer or a reason; lost peers are found again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import pytest

from flintmq.core.conversation import SENT, Call
from flintmq.errors import Overloaded, Unreachable
from flintmq.net import blocking
from flintmq.net.backoff import FIRST_MS
from flintmq.net.blocking import BlockingChannels
from flintmq.net.blocking_channel import BlockingChannel
from flintmq.net.limits import Limits
from flintmq.net.tls import ClientTls
from flintmq.protocol.command import Command, answer, request
from flintmq.protocol.wire import encode_command
from net.support import (
    CALL_MS,
    PATIENCE_S,
    HandClock,
    ThreadedPeer,
    closed_port,
    descriptors,
    read_commands,
)

ASK = request(10, body=b"hello")


def reply(sock: socket.socket, to: Command, body: bytes = b"") -> None:
    sock.sendall(encode_command(answer(to, 0, body=body)))


def echo_once(sock: socket.socket) -> None:
    (asked,) = read_commands(sock, 1)
    reply(sock, asked, asked.body)


@contextmanager
def pair(
    *, limits: Limits | None = None, clock: HandClock | None = None
) -> Iterator[tuple[BlockingChannel, socket.socket]]:
    """A channel and its peer, a bare socket."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(PATIENCE_S)
    channel = BlockingChannel(ours, "peer:1", limits=limits or Limits())
    if clock is not None:
        channel = BlockingChannel(ours, "peer:1", limits=limits or Limits(), clock=clock)
    with channel, theirs:
        yield channel, theirs


def test_a_call_is_given_its_answer() -> None:
    with ThreadedPeer(echo_once) as peer, blocking.connect(peer.address) as channel:
        assert channel.call(ASK, CALL_MS).body == b"hello"
        assert repr(channel) == f"<BlockingChannel {peer.address}, 0 calls>"


def test_calls_under_way_at_once_are_finished_in_any_order() -> None:
    with pair() as (channel, peer):
        tokens = [channel.start(request(n), CALL_MS) for n in range(4)]
        for asked in reversed(read_commands(peer, 4)):
            reply(peer, asked, b"%d" % asked.code)

        bodies = [channel.finish(tokens[n]).body for n in (2, 0, 3, 1)]

        assert bodies == [b"2", b"0", b"3", b"1"]
        assert (channel._started, channel._ended) == ({}, {})


def test_the_next_answer_travels_while_the_last_is_worked_on() -> None:
    with pair() as (channel, peer):
        first = channel.start(request(1), CALL_MS)
        reply(peer, read_commands(peer, 1)[0], b"first")
        channel.finish(first)
        second = channel.start(request(2), CALL_MS)

        reply(peer, read_commands(peer, 1)[0], b"second")

        assert channel.finish(second).body == b"second"


def test_no_answer_in_time_says_how_long_and_for_what_and_the_channel_lives_on() -> None:
    with pair() as (channel, peer):
        with pytest.raises(Unreachable) as caught:
            channel.call(request(11), 20)
        (late,) = read_commands(peer, 1)
        reply(peer, late, b"late")
        token = channel.start(ASK, CALL_MS)
        reply(peer, read_commands(peer, 1)[0], b"right")

        assert channel.finish(token).body == b"right"
        assert str(caught.value) == (
            "peer:1: timed out after 20 ms waiting for an answer to code 11"
        )


def test_each_call_has_its_own_deadline() -> None:
    clock = HandClock()
    with pair(clock=clock) as (channel, peer):
        short = channel.start(request(1), 1_000)
        long = channel.start(request(2), 2_000)
        clock.now_ms += 1_000
        for asked in read_commands(peer, 2)[1:]:
            reply(peer, asked, b"in time")

        with pytest.raises(Unreachable, match="1000 ms waiting for an answer to code 1"):
            channel.finish(short)
        assert channel.finish(long).body == b"in time"


def test_an_abandoned_call_leaves_nothing_behind() -> None:
    with pair() as (channel, peer):
        given_up = channel.start(request(1), CALL_MS)
        kept = channel.start(request(2), CALL_MS)

        channel.abandon(given_up)

        for asked in read_commands(peer, 2):
            reply(peer, asked)
        channel.finish(kept)
        assert (channel._started, channel._ended) == ({}, {})


def test_an_answer_that_is_there_goes_with_the_call_that_is_abandoned() -> None:
    with pair() as (channel, peer):
        given_up, kept = (channel.start(request(n), CALL_MS) for n in range(2))
        for asked in read_commands(peer, 2):
            reply(peer, asked)
        channel.finish(kept)
        assert given_up in channel._ended

        channel.abandon(given_up)

        assert (channel._started, channel._ended) == ({}, {})


def test_an_oneway_request_is_not_answered() -> None:
    with pair() as (channel, peer):
        channel.tell(request(15), CALL_MS)

        (told,) = read_commands(peer, 1)
        assert told.is_oneway


def test_requests_of_the_peer_are_answered_by_the_handler_while_we_wait() -> None:
    def serve(sock: socket.socket) -> None:
        (asked,) = read_commands(sock, 1)
        sock.sendall(encode_command(request(40, oneway=True)))
        sock.sendall(encode_command(request(307, body=b"how are you", opaque=77)))
        (well,) = read_commands(sock, 1)
        assert (well.opaque, well.body) == (77, b"how are you")
        reply(sock, asked, b"done")

    with (
        ThreadedPeer(serve) as peer,
        blocking.connect(peer.address, handler=lambda r: answer(r, 0, body=r.body)) as channel,
    ):
        assert channel.call(ASK, CALL_MS).body == b"done"


def test_requests_of_the_peer_are_ignored_without_a_handler() -> None:
    with pair() as (channel, peer):
        token = channel.start(ASK, CALL_MS)
        peer.sendall(encode_command(request(307)))
        reply(peer, read_commands(peer, 1)[0])

        channel.finish(token)

        peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            peer.recv(1)


def test_a_lost_connection_ends_all_its_calls() -> None:
    with pair() as (channel, peer):
        tokens = [channel.start(ASK, CALL_MS) for _ in range(2)]
        peer.sendall(encode_command(answer(ASK, 0))[:5])
        peer.close()

        for token in tokens:
            with pytest.raises(Unreachable, match="in the middle of a frame"):
                channel.finish(token)

        with pytest.raises(Unreachable, match="in the middle of a frame"):
            channel.start(ASK, CALL_MS)
        with pytest.raises(Unreachable, match="in the middle of a frame"):
            channel.tell(ASK, CALL_MS)


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 200 OK\r\n\r\n", b"\0\0\0\x06\0\0\0\x02[]"])
def test_bytes_that_are_no_frames_close_the_channel(garbage: bytes) -> None:
    with pair() as (channel, peer):
        token = channel.start(ASK, CALL_MS)
        peer.sendall(garbage)

        with pytest.raises(Unreachable, match="the peer broke the protocol"):
            channel.finish(token)


def test_an_answer_may_come_one_byte_at_a_time() -> None:
    def serve(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        (asked,) = read_commands(sock, 1)
        for byte in encode_command(answer(asked, 0, body=b"slow")):
            sock.sendall(bytes([byte]))

    with ThreadedPeer(serve) as peer, blocking.connect(peer.address) as channel:
        assert channel.call(ASK, CALL_MS).body == b"slow"


def test_a_peer_that_does_not_read_ends_the_channel() -> None:
    with pair() as (channel, _):
        with pytest.raises(Unreachable, match="sending code 10: the peer does not read"):
            channel.call(request(10, body=bytes(10_000_000)), 20)

        assert channel.is_closed


def test_more_calls_than_may_be_started_are_refused() -> None:
    with pair(limits=Limits(calls_max=1)) as (channel, _):
        channel.start(ASK, CALL_MS)

        with pytest.raises(Overloaded, match="calls_max"):
            channel.start(ASK, CALL_MS)


def test_large_bodies_arrive_whole() -> None:
    body = bytes(range(256)) * 50_000

    def serve(sock: socket.socket) -> None:
        for asked in read_commands(sock, 2):
            reply(sock, asked, body)

    with ThreadedPeer(serve) as peer, blocking.connect(peer.address) as channel:
        tokens = [channel.start(ASK, CALL_MS) for _ in range(2)]

        assert [channel.finish(token).body == body for token in tokens] == [True, True]


def test_a_refused_connection_says_so() -> None:
    address = closed_port()

    with pytest.raises(Unreachable) as caught:
        blocking.connect(address)

    assert str(caught.value) == f"{address}: refused: nothing listens there"


def test_what_is_no_address_and_a_name_nobody_knows_are_unreachable() -> None:
    with pytest.raises(Unreachable, match="give host:port"):
        blocking.connect("broker-a")
    with pytest.raises(Unreachable, match="the name is not known"):
        blocking.connect("no-such-host.invalid:9876", timeout_ms=CALL_MS)


def test_a_tls_handshake_that_hangs_is_given_up() -> None:
    before = descriptors()
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(Unreachable, match="timed out after 30 ms connecting"),
    ):
        blocking.connect(f"127.0.0.1:{listener.getsockname()[1]}", tls=ClientTls(), timeout_ms=30)

    assert descriptors() == before


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
