"""A cluster of RocketMQ that exists in memory only, for what a driver of Spark asks of it.

It answers routes, extents of queues, commits and heartbeats, with the bodies that real servers
send; requests and bytes are counted.  There is no network and no store, so time spent is time of
the driver.

    SimulatedAccess.open ──► SimulatedLine ──► SimulatedCluster: one table of end offsets
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flintmq.arrow.reading.access import Access
from flintmq.core.conversation import Call, PausingConversation
from flintmq.core.routes import NameServers
from flintmq.model.queue import QueueRef
from flintmq.model.route import BrokerReplicas, QueueCounts, Route
from flintmq.model.topic import Permission
from flintmq.net.drive import drive
from flintmq.protocol.bodies.route import TopicRoute
from flintmq.protocol.bodies.stats import QueueExtent, TopicStats
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import ANSWER_BIT, Command
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.protocol.headers.offset import UpdateConsumerOffset
from flintmq.protocol.headers.route import RouteOf

T = TypeVar("T")

NAMESRV = "namesrv:9876"
NAME_SERVER = "name server"


@dataclass
class SimulatedCluster:
    """Topics in turn over brokers: each has ``queues_each`` queues on ``brokers_each`` brokers."""

    brokers: int
    topics: int
    queues_each: int = 5
    brokers_each: int = 2
    end: int = 0
    """The end offset of every queue."""

    requests: Counter[str] = field(default_factory=Counter)
    answered_bytes: int = 0
    committed: dict[QueueRef, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def queue_count(self) -> int:
        return self.topics * self.brokers_each * self.queues_each

    def names(self) -> list[str]:
        return [f"topic-{number:06}" for number in range(self.topics)]

    def forget_counts(self) -> None:
        self.requests.clear()
        self.answered_bytes = 0

    def answer(self, call: Call) -> Command:
        code = RequestCode(call.request.code)
        body = self._body(call, code)
        with self._lock:
            self.requests[code.name] += 1
            self.answered_bytes += 0 if body is None else len(body)
        if body is None:
            return Command(code=ResponseCode.TOPIC_NOT_EXIST, flag=ANSWER_BIT)
        return Command(code=ResponseCode.SUCCESS, flag=ANSWER_BIT, body=body)

    def _body(self, call: Call, code: RequestCode) -> bytes | None:
        match code:
            case RequestCode.GET_ROUTEINFO_BY_TOPIC:
                return self._route(call.request.header(RouteOf).topic)
            case RequestCode.GET_TOPIC_STATS_INFO:
                broker = call.address.partition(":")[0]
                return self._extents(call.request.header(OfTopic).topic, broker)
            case RequestCode.UPDATE_CONSUMER_OFFSET:
                header = call.request.header(UpdateConsumerOffset)
                broker = call.address.partition(":")[0]
                queue = QueueRef(header.topic, broker, header.queue_id)
                self.committed[queue] = header.commit_offset
                return b""
            case _:
                return b""

    def _brokers_of(self, topic: str) -> list[str]:
        first = int(topic.rpartition("-")[2])
        return [f"broker-{(first + n) % self.brokers:03}" for n in range(self.brokers_each)]

    def _route(self, topic: str) -> bytes | None:
        if not topic.startswith("topic-"):
            return None
        names = self._brokers_of(topic)
        both = Permission.READ | Permission.WRITE
        route = Route(
            tuple(BrokerReplicas("cluster", name, {0: f"{name}:10911"}) for name in names),
            tuple(QueueCounts(name, self.queues_each, self.queues_each, both) for name in names),
        )
        return TopicRoute.of(route).to_body()

    def _extents(self, topic: str, broker: str) -> bytes:
        extent = QueueExtent(max_offset=self.end)
        table = {QueueRef(topic, broker, number): extent for number in range(self.queues_each)}
        return TopicStats(offset_table=table).to_body()


class SimulatedLine:
    """What `flintmq.arrow.reading.access.Line` is to a real cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.namesrv = NameServers((NAMESRV,))
        self._cluster = cluster

    def hold(self, conversation: PausingConversation[T]) -> T:
        return drive(conversation, self.make)

    def make(self, call: Call) -> Command:
        return self._cluster.answer(call)

    def start(self, call: Call) -> SimulatedCall:
        return SimulatedCall(lambda: self._cluster.answer(call))

    def close(self) -> None:
        """There is nothing to close."""


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """A request in flight."""

    finish: Callable[[], Command]


@dataclass(frozen=True)
class SimulatedAccess(Access):
    """Opens lines to a simulated cluster."""

    cluster: Any = None

    def open(self) -> Any:
        return SimulatedLine(self.cluster)
