"""Messages that go back from a task: to their broker, or as a copy to whoever takes one.

    CONSUMER_SEND_MSG_BACK (36) to the master of the queue
      └──refused, or unreachable──► a copy to the retry topic ──► raised

What nobody takes is an error of the task: Spark runs it again, and no message is lost.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from typing import Final

from flintmq.core.ask import refusal
from flintmq.core.consumer.settle_concurrent import ConcurrentSettling, SettleAction
from flintmq.core.consumer.settle_orderly import OrderlySettling
from flintmq.core.conversation import Call
from flintmq.core.group.actions import (
    COPY_TIMEOUT_MS,
    SEND_BACK_TIMEOUT_MS,
    Deliver,
    SendBack,
    SendToRetry,
)
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.requests import send_back_request
from flintmq.core.producer.publisher import Publisher
from flintmq.core.producer.send_draft import draft_copy
from flintmq.errors import FlintError, NoRoute
from flintmq.logs import logger
from flintmq.model.group import INNER_PRODUCER_GROUP
from flintmq.model.queue import QueueRef
from flintmq.model.topic import AUTO_CREATE_TOPIC
from flintmq.net.clock import Clock, monotonic_ms, wall_ms
from flintmq.protocol.codes import ResponseCode
from flintmq.spark.reading.access import Line
from flintmq.spark.reading.masters import Masters

log = logger(__name__)

_SUCCESS: Final = int(ResponseCode.SUCCESS)


class Returns:
    """The way back for the messages of one task."""

    def __init__(
        self, line: Line, settings: ConsumerSettings, *, clock: Clock = monotonic_ms
    ) -> None:
        self._line = line
        self._settings = settings
        self._clock = clock
        self._masters = Masters(line)
        self._publisher = Publisher(
            INNER_PRODUCER_GROUP, self._masters.routes, clock=clock, chance=random.random
        )

    def carry_out(
        self, settling: ConcurrentSettling | OrderlySettling, actions: Iterable[SettleAction]
    ) -> None:
        """Do what settling asks for; raise what keeps a message from being settled."""
        todo = deque(actions)
        while todo:
            action = todo.popleft()
            if isinstance(action, SendBack):
                try:
                    self._send_back(action)
                except FlintError as error:
                    more = settling.send_back_failed(action, str(error), self._clock())
                    if not any(isinstance(each, SendToRetry) for each in more):
                        raise
                    todo.extendleft(reversed(more))
                else:
                    settling.sent_back(action, self._clock())
            elif isinstance(action, SendToRetry):
                self._send_copy(action)
                settling.sent_back(action.ask, self._clock())
            else:
                assert not isinstance(action, Deliver), "nothing is delivered again in a task"
                log.log(action.level, "%s: %s", action.subject, action.text)

    def _send_back(self, ask: SendBack) -> None:
        address = self._masters.address(ask.queue)
        asked = send_back_request(
            ask, self._settings.wire_group, unit_mode=self._settings.unit_mode
        )
        reply = self._line.make(Call(address, asked, SEND_BACK_TIMEOUT_MS))
        if reply.code != _SUCCESS:
            raise refusal(reply, address)

    def _send_copy(self, copy: SendToRetry) -> None:
        queues = self._publish_queues(copy.topic)
        draft = draft_copy(copy, now_ms=wall_ms())
        self._line.hold(self._publisher.send(draft, queues, COPY_TIMEOUT_MS))

    def _publish_queues(self, topic: str) -> tuple[QueueRef, ...]:
        masters, routes = self._masters, self._masters.routes
        if not masters.look_up(topic) and masters.look_up(AUTO_CREATE_TOPIC):
            template = routes.find(AUTO_CREATE_TOPIC)
            assert template is not None
            routes.borrow(topic, template)
        queues = routes.publish_queues(topic)
        if not queues:
            raise NoRoute(topic, "no broker can be written to")
        return queues
