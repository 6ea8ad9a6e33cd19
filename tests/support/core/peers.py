"""Servers that answer from a script, so that a conversation can be held without sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flintmq.core.conversation import SENT, Call, Pause, PausingConversation
from flintmq.core.routes import NameServers
from flintmq.errors import FlintError
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.route import BrokerReplicas, QueueCounts, Route
from flintmq.model.topic import READ_WRITE, Permission
from flintmq.protocol.bodies.route import BrokerEntry, ClusterMembers, TopicRoute
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, answer
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.route import RouteOf
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record import Record, Version, crc_of, encode_record

T = TypeVar("T")

NS = "ns:9876"
A, B = "10.0.0.1:10911", "10.0.0.2:10911"
CLUSTER = {"broker-a": A, "broker-b": B}

Reply = Command | FlintError | Callable[[Command], Command]


def ok(header: Header | None = None, body: bytes = b"", *, code: int = 0) -> Command:
    return answer(Command(), code, header, body)


def no(code: int, remark: str = "no") -> Command:
    return answer(Command(), code, remark=remark)


class Peers:
    """Answers by address and code.  A list is used up, its last entry stays."""

    def __init__(self, script: dict[tuple[str, int], Reply | list[Reply]]) -> None:
        self._script = script
        self.calls: list[Call] = []
        self.pauses: list[int] = []

    def hold(self, conversation: PausingConversation[T]) -> T:
        try:
            wanted = next(conversation)
            while True:
                if isinstance(wanted, Pause):
                    self.pauses.append(wanted.wait_ms)
                    wanted = conversation.send(SENT)
                    continue
                reply = self._reply(wanted)
                if isinstance(reply, FlintError):
                    wanted = conversation.throw(reply)
                else:
                    wanted = conversation.send(reply)
        except StopIteration as done:
            result: T = done.value
            return result

    def asked(self, code: int) -> list[tuple[str, Command]]:
        return [(call.address, call.request) for call in self.calls if call.request.code == code]

    def _reply(self, call: Call) -> Command | FlintError:
        self.calls.append(call)
        key = (call.address, call.request.code)
        assert key in self._script, f"nobody said what {key} answers"
        reply = self._script[key]
        if isinstance(reply, list):
            reply = reply.pop(0) if len(reply) > 1 else reply[0]
        return reply(call.request) if callable(reply) else reply


def name_servers(*addresses: str) -> NameServers:
    return NameServers(addresses or (NS,))


def cluster(addresses: dict[str, str | dict[int, str]] | None = None) -> Command:
    """The answer to 106."""
    table = {}
    for name, where in (addresses or CLUSTER).items():
        ids = {0: where} if isinstance(where, str) else where
        table[name] = BrokerEntry(broker_name=name, cluster="shop", broker_addrs=ids)
    names = {"shop": tuple(table)}
    return ok(body=ClusterMembers(broker_addr_table=table, cluster_addr_table=names).to_body())


def route(
    queues: int = 2,
    permission: Permission = READ_WRITE,
    addresses: dict[str, str | dict[int, str]] | None = None,
) -> Route:
    chosen = addresses or CLUSTER
    return Route(
        brokers=tuple(
            BrokerReplicas("shop", name, {0: where} if isinstance(where, str) else where)
            for name, where in chosen.items()
        ),
        queues=tuple(QueueCounts(name, queues, queues, permission) for name in chosen),
    )


def routes(**known: Route) -> Callable[[Command], Command]:
    """The answers to 105: ``orders`` is a topic, ``RETRY_g`` stands for ``%RETRY%g``."""
    by_name = {
        name.replace("RETRY_", "%RETRY%").replace("DLQ_", "%DLQ%"): found
        for name, found in known.items()
    }

    def reply(request: Command) -> Command:
        found = by_name.get(request.header(RouteOf).topic)
        if found is None:
            return no(ResponseCode.TOPIC_NOT_EXIST, "no route\nSee http://x for further details.")
        return ok(body=TopicRoute.of(found).to_body())

    return reply


def a_cluster() -> dict[tuple[str, int], Reply | list[Reply]]:
    return {(NS, RequestCode.GET_BROKER_CLUSTER_INFO): cluster()}


def record(
    offset: int,
    body: bytes = b"hello",
    *,
    topic: str = "orders",
    queue_id: int = 0,
    store_ms: int = 1_000,
    **properties: str,
) -> bytes:
    host = Host.parse(A)
    return encode_record(
        Record(
            Version.V1,
            crc_of(body),
            queue_id,
            0,
            QueueOffset(offset),
            LogOffset(0),
            0,
            store_ms,
            host,
            store_ms,
            host,
            0,
            LogOffset(0),
            body,
            topic,
            encode_properties(properties),
        )
    )
