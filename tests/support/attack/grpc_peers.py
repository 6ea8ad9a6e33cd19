"""Peers of the gRPC port, frame by frame: clients that behave cheaply, and ones that do not."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from flintmq.protocol.http2 import h2_frames as frames
from flintmq.protocol.http2.h2_frames import FrameKind
from flintmq.protocol.http2.hpack import HeaderReader
from flintmq.proxy.wire.message_classes import SERVICE
from support.attack.peers import WAIT_S, Peer
from support.net.h2_client import begin, call, data, message
from support.proxy.grpc_client import message as sending
from support.proxy.grpc_client import new

HELLO = frames.PREFACE + frames.settings({})
END = frames.END_STREAM


def path(name: str) -> str:
    return f"/{SERVICE}/{name}"


def said(client_id: str) -> dict[str, str]:
    """The metadata of a call."""
    return {
        "te": "trailers",
        "user-agent": "grpc-java-netty/1.50",
        "x-mq-client-id": client_id,
        "x-mq-client-version": "5.2.0",
        "x-mq-language": "JAVA",
    }


def asking(stream_id: int, name: str, request: Any, client_id: str) -> bytes:
    """A whole call of the service."""
    return call(stream_id, path(name), request.SerializeToString(), said(client_id))


def receive(topic: str, group: str) -> Any:
    """A receive that waits for as long as it may."""
    request = new("ReceiveMessage")
    request.group.name = group
    request.message_queue.topic.name = topic
    request.message_queue.broker.name = "victim"
    request.batch_size = 32
    request.auto_renew = True
    request.filter_expression.type = 1
    request.filter_expression.expression = "*"
    request.long_polling_timeout.FromMilliseconds(20_000)
    return request


class Came(NamedTuple):
    """A frame."""

    kind: int
    flags: int
    stream_id: int
    payload: bytes


class GrpcPeer(Peer):
    """One connection to the gRPC port."""

    def __init__(self, address: str, *, source: str | None = None) -> None:
        super().__init__(address, source=source)
        self._fields = HeaderReader(100_000)
        self._rest = b""
        self.told: int | None = None
        """The error of a GOAWAY that came."""
        self.say(HELLO)

    def next(self) -> Came | None:
        """The next frame; None when the connection was closed."""
        self.socket.settimeout(WAIT_S)
        while True:
            size = frames.HEAD_BYTES + int.from_bytes(self._rest[:3], "big")
            if len(self._rest) >= max(size, frames.HEAD_BYTES):
                whole, self._rest = self._rest[:size], self._rest[size:]
                if whole[3] == FrameKind.GOAWAY:
                    self.told = int.from_bytes(whole[13:17], "big")
                return Came(whole[3], whole[4], int.from_bytes(whole[5:9], "big"), whole[9:])
            try:
                got = self.socket.recv(65_536)
            except ConnectionError:
                return None
            if not got:
                return None
            self._rest += got

    def answered(self, stream_id: int) -> dict[str, str]:
        """The fields of an answer that ended; its messages are dropped."""
        known: dict[str, str] = {}
        while (came := self.next()) is not None:
            fields = self._fields.read(came.payload) if came.kind == FrameKind.HEADERS else []
            if came.stream_id == stream_id:
                known |= dict(fields)
                if came.flags & END and came.kind in (FrameKind.DATA, FrameKind.HEADERS):
                    return known
        raise AssertionError(f"closed without an answer on stream {stream_id}: {known}")

    def farewell(self) -> int | None:
        """The error of a GOAWAY; None when the connection was closed without one."""
        while self.told is None and self.next() is not None:
            pass
        return self.told


class IdleClient(GrpcPeer):
    """A consumer with its telemetry stream open, as one of the official clients has it."""

    def __init__(self, address: str, number: int, *, topic: str, group: str) -> None:
        super().__init__(address)
        self._client_id = f"idle@{number}"
        self._stream_id = 1
        command = new("Telemetry")
        command.settings.client_type = 3  # simple consumer
        command.settings.subscription.group.name = group
        wish = command.settings.subscription.subscriptions.add()
        wish.topic.name = topic
        wish.expression.type = 1
        wish.expression.expression = "*"
        self.say(begin(1, path("Telemetry"), said(self._client_id)))
        self.say(data(1, message(command.SerializeToString())))

    def is_known(self) -> bool:
        """Wait for the settings that come back."""
        while (came := self.next()) is not None:
            if came.kind == FrameKind.DATA and came.stream_id == 1:
                return True
        return False

    def beat(self) -> None:
        self._stream_id += 2
        request = new("Heartbeat")
        request.client_type = 3
        self.say(asking(self._stream_id, "Heartbeat", request, self._client_id))

    def is_beating(self) -> bool:
        """Whether the last heartbeat was answered."""
        return self.answered(self._stream_id).get("grpc-status") == "0"


class Sender(GrpcPeer):
    """A producer that sends one message after the other."""

    def __init__(self, address: str, topic: str, *, source: str | None = None) -> None:
        super().__init__(address, source=source)
        self._topic = topic
        self._stream_id = -1

    def send_ms(self) -> float:
        """How long one send takes."""
        self._stream_id += 2
        request = asking(self._stream_id, "SendMessage", sending(self._topic), "sender")
        began_s = time.perf_counter()
        self.say(request + frames.window_update(0, 1_000))
        assert self.answered(self._stream_id).get("grpc-status") == "0"
        return (time.perf_counter() - began_s) * 1000

    def sends_ms(self, count: int) -> list[float]:
        return sorted(self.send_ms() for _ in range(count))
