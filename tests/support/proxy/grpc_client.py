"""A client of RocketMQ's gRPC service, made from the same descriptor set and nothing else of ours.

It blocks, one call at a time; a telemetry stream is read on a thread of gRPC's own.
"""

from __future__ import annotations

import hmac
import itertools
import queue
from collections.abc import Iterable, Iterator
from hashlib import sha1
from types import TracebackType
from typing import Any, Final, Self

import grpc

from flintmq.proxy.wire.message_classes import SERVICE, service_methods

METHODS: Final = service_methods()
CALL_S: Final = 30.0
"""How long a call may take on a busy machine."""

_ids = itertools.count(1)


def new(call: str) -> Any:
    """An empty question."""
    return METHODS[call][0]()


def message(topic: str, body: bytes = b"body", **system: Any) -> Any:
    """A request that sends one message; ``system`` are its system properties."""
    request = new("SendMessage")
    add_message(request, topic, body, **system)
    return request


def add_message(request: Any, topic: str, body: bytes = b"body", **system: Any) -> Any:
    made = request.messages.add(body=body)
    made.topic.name = topic
    made.system_properties.message_id = f"01{next(_ids):032X}"
    for name, value in system.items():
        field = getattr(made.system_properties, name)
        if hasattr(field, "extend"):
            field.extend(value)
        elif hasattr(field, "FromMilliseconds"):
            field.FromMilliseconds(value)
        else:
            setattr(made.system_properties, name, value)
    return made


class GrpcClient:
    """One client of a proxy."""

    def __init__(
        self,
        address: str,
        client_id: str = "client-1",
        *,
        account: tuple[str, str] | None = None,
        channel: Any = None,
    ) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self._channel: Any = channel or grpc.insecure_channel(address, options=options)
        self.metadata = [
            ("x-mq-client-id", client_id),
            ("x-mq-client-version", "5.2.0"),
            ("x-mq-language", "PYTHON"),
        ]
        if account is not None:
            self.metadata += signed(*account)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    def call(self, name: str, request: Any, timeout_s: float = CALL_S) -> Any:
        asked, answered = METHODS[name]
        made = self._channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=asked.SerializeToString,
            response_deserializer=answered.FromString,
        )
        return made(request, timeout=timeout_s, metadata=self.metadata)

    def stream(self, request: Any, timeout_s: float | None = CALL_S) -> Any:
        """The answers of a receive, as they come; the call can be cancelled."""
        asked, answered = METHODS["ReceiveMessage"]
        made = self._channel.unary_stream(
            f"/{SERVICE}/ReceiveMessage",
            request_serializer=asked.SerializeToString,
            response_deserializer=answered.FromString,
        )
        return made(request, timeout=timeout_s, metadata=self.metadata)

    def telemetry(self) -> TelemetryStream:
        asked, answered = METHODS["Telemetry"]
        made = self._channel.stream_stream(
            f"/{SERVICE}/Telemetry",
            request_serializer=asked.SerializeToString,
            response_deserializer=answered.FromString,
        )
        return TelemetryStream(made, self.metadata)

    # What tests do most

    def send(self, topic: str, body: bytes = b"body", **system: Any) -> Any:
        return self.call("SendMessage", message(topic, body, **system))

    def receive(
        self,
        topic: str,
        group: str,
        *,
        count: int = 32,
        invisible_s: int = 60,
        tags: str = "*",
        sql: str | None = None,
        auto_renew: bool = False,
        attempt_id: str | None = None,
    ) -> tuple[Any, list[Any]]:
        """Status and messages of one receive that may wait for five seconds."""
        request = receive_request(topic, group, count=count, invisible_s=invisible_s)
        request.auto_renew = auto_renew
        request.filter_expression.type = 1 if sql is None else 2
        request.filter_expression.expression = tags if sql is None else sql
        if attempt_id is not None:
            request.attempt_id = attempt_id
        first, *rest = list(self.stream(request))
        assert first.HasField("status"), first
        assert rest[-1].HasField("delivery_timestamp"), rest
        return first.status, [each.message for each in rest[:-1]]

    def receive_all(self, topic: str, group: str, count: int, **more: Any) -> list[Any]:
        """Receive until so many messages came: queues take turns."""
        found: list[Any] = []
        for _ in range(20):
            found += self.receive(topic, group, **more)[1]
            if len(found) >= count:
                return found
        raise AssertionError(f"{len(found)} of {count} messages of {topic} came")

    def nothing_comes(self, topic: str, group: str) -> None:
        """Nothing comes but what is sent now: a receive of nothing takes five seconds."""
        self.send(topic, b"marker")
        bodies: list[bytes] = []
        while b"marker" not in bodies:
            found = self.receive(topic, group)[1]
            self.ack(topic, group, found)
            bodies += [each.body for each in found]
        assert bodies == [b"marker"]

    def ack(self, topic: str, group: str, messages: Iterable[Any]) -> Any:
        request = new("AckMessage")
        request.topic.name, request.group.name = topic, group
        for each in messages:
            system = each.system_properties
            request.entries.add(message_id=system.message_id, receipt_handle=system.receipt_handle)
        return self.call("AckMessage", request)

    def hide(self, topic: str, group: str, handle: str, duration_s: float) -> Any:
        request = new("ChangeInvisibleDuration")
        request.topic.name, request.group.name = topic, group
        request.receipt_handle = handle
        request.invisible_duration.FromMilliseconds(round(duration_s * 1000))
        return self.call("ChangeInvisibleDuration", request)


def receive_request(topic: str, group: str, *, count: int = 32, invisible_s: int = 60) -> Any:
    request = new("ReceiveMessage")
    request.message_queue.topic.name, request.group.name = topic, group
    request.batch_size = count
    request.invisible_duration.FromSeconds(invisible_s)
    request.long_polling_timeout.FromSeconds(5)
    request.filter_expression.type = 1
    request.filter_expression.expression = "*"
    return request


class TelemetryStream:
    """Both directions of a telemetry stream."""

    def __init__(self, made: Any, metadata: list[tuple[str, str]]) -> None:
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.call: Any = made(self._commands(), metadata=metadata, timeout=120)

    def _commands(self) -> Iterator[Any]:
        while (command := self._outgoing.get()) is not None:
            yield command

    def tell(self, command: Any) -> None:
        self._outgoing.put(command)

    def hear(self) -> Any:
        """The next command of the proxy."""
        return next(self.call)

    def close(self) -> None:
        self._outgoing.put(None)
        self.call.cancel()


def producer_settings(*topics: str) -> Any:
    command = new("Telemetry")
    command.settings.client_type = 1
    command.settings.publishing.SetInParent()
    for topic in topics:
        command.settings.publishing.topics.add(name=topic)
    return command


def consumer_settings(group: str, *topics: str, kind: int = 2) -> Any:
    command = new("Telemetry")
    command.settings.client_type = kind
    command.settings.subscription.group.name = group
    for topic in topics:
        entry = command.settings.subscription.subscriptions.add()
        entry.topic.name = topic
        entry.expression.type = 1
        entry.expression.expression = "*"
    return command


def signed(
    access_key: str, secret_key: str, date: str = "20200101T000000Z"
) -> list[tuple[str, str]]:
    """Metadata of a signed call."""
    signature = hmac.new(secret_key.encode(), date.encode(), sha1).hexdigest().upper()
    header = (
        f"MQv2-HMAC-SHA1 Credential={access_key}, SignedHeaders=x-mq-date-time, "
        f"Signature={signature}"
    )
    return [("x-mq-date-time", date), ("authorization", header)]
