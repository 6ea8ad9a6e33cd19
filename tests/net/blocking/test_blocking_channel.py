"""Without a loop, too, every call ends once, in its answer or in a reason."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flintmq.errors import Overloaded, Unreachable
from flintmq.net.blocking import blocking
from flintmq.net.blocking.blocking_channel import BlockingChannel
from flintmq.net.clock import Clock, monotonic_ms
from flintmq.net.limits import LIMITS, ChannelLimits
from flintmq.protocol.command import answer, request
from flintmq.protocol.wire import encode_command
from support.net.support import (
    CALL_MS,
    PATIENCE_S,
    HandClock,
    ThreadedPeer,
    echo_once,
    read_commands,
    reply,
)

ASK = request(10, body=b"hello")


@contextmanager
def pair(
    *, limits: ChannelLimits = LIMITS, clock: Clock = monotonic_ms
) -> Iterator[tuple[BlockingChannel, socket.socket]]:
    """A channel and its peer, a bare socket."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(PATIENCE_S)
    with BlockingChannel(ours, "peer:1", limits=limits, clock=clock) as channel, theirs:
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
            "peer:1: timed out after 20 ms waiting for an answer to a pull (PULL_MESSAGE, 11)"
        )


def test_each_call_has_its_own_deadline() -> None:
    clock = HandClock()
    with pair(clock=clock) as (channel, peer):
        short = channel.start(request(1), 1_000)
        long = channel.start(request(2), 2_000)
        clock.now_ms += 1_000
        for asked in read_commands(peer, 2)[1:]:
            reply(peer, asked, b"in time")

        with pytest.raises(Unreachable, match="1000 ms waiting for an answer to request code 1"):
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
        channel.send_oneway(request(15), CALL_MS)

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
            channel.send_oneway(ASK, CALL_MS)


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
        with pytest.raises(Unreachable, match=r"writing a send .SEND_MESSAGE, 10.: the peer"):
            channel.call(request(10, body=bytes(10_000_000)), 20)

        assert channel.is_closed


def test_an_interrupt_while_sending_ends_the_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    with pair() as (channel, _):

        class Interrupted:
            def settimeout(self, _timeout_s: float) -> None: ...

            def sendall(self, _data: bytes) -> None:
                raise KeyboardInterrupt

            def close(self) -> None: ...

        monkeypatch.setattr(channel, "_sock", Interrupted())

        with pytest.raises(KeyboardInterrupt):
            channel.call(ASK, CALL_MS)

        assert channel.why_closed == "interrupted while sending"
        monkeypatch.undo()
        channel._sock.close()


def test_more_calls_than_may_be_started_are_refused() -> None:
    with pair(limits=ChannelLimits(calls_max=1)) as (channel, _):
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
