"""Messages that go back from a task: to their broker, or as a copy to whoever takes one.

    CONSUMER_SEND_MSG_BACK (36) to the master of the queue
      └──refused, or unreachable──► a copy to the retry topic ──► raised
    given up: a copy that carries the reason, to the retry topic; the broker makes it a dead letter
      └──refused, or unreachable──► CONSUMER_SEND_MSG_BACK (36)

The copy is tried again while no broker takes it, for as long as servers may be away.  After that it
is an error of the task: Spark runs it again, or fails the query, and no message is lost.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final

from flintmq.arrow.reading.access import Line
from flintmq.arrow.reading.masters import Masters
from flintmq.arrow.reading.patience import patiently
from flintmq.client.hooks.receive_hooks import Watch, operation_of
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
from flintmq.core.group.retry_copy import copy_to_retry, is_given_up, near, short_reason
from flintmq.core.producer.publisher import Publisher
from flintmq.core.producer.send_draft import draft_copy
from flintmq.errors import FlintError, NoRoute, SendFailed, Unreachable
from flintmq.logs import logger
from flintmq.model.group import INNER_PRODUCER_GROUP
from flintmq.model.queue import QueueRef
from flintmq.model.topic import AUTO_CREATE_TOPIC
from flintmq.net.clock import Clock, monotonic_ms, wall_ms
from flintmq.protocol.codes import ResponseCode

log = logger(__name__)

_SUCCESS: Final = int(ResponseCode.SUCCESS)


class Returns:
    """The way back for the messages of one task."""

    def __init__(
        self,
        line: Line,
        settings: ConsumerSettings,
        on_dead: Callable[[str], None],
        *,
        retry_ms: int,
        watch: Watch | None = None,
        clock: Clock = monotonic_ms,
    ) -> None:
        """``on_dead`` gets a sentence for each message that became a dead letter."""
        self._line = line
        self._settings = settings
        self._on_dead = on_dead
        self._retry_ms = retry_ms
        self._watch = watch
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
                    with self._settling(action):
                        self._send_back(action)
                except FlintError as error:
                    more = settling.send_back_failed(action, str(error), self._clock())
                    if not any(isinstance(each, SendToRetry) for each in more):
                        raise
                    todo.extendleft(reversed(more))
                else:
                    settling.sent_back(action, self._clock())
            elif isinstance(action, SendToRetry):
                with self._settling(action.ask):
                    patiently(
                        f"{action.ask.queue}: a message is not sent back yet",
                        self._retry_ms,
                        partial(self._send_copy, action),
                        passing=(Unreachable, NoRoute, SendFailed),
                    )
                settling.sent_back(action.ask, self._clock())
            else:
                assert not isinstance(action, Deliver), "nothing is delivered again in a task"
                log.log(action.level, "%s: %s", action.subject, action.text)

    def _settling(self, ask: SendBack) -> AbstractContextManager[None]:
        if not self._watch:
            return nullcontext()
        operation = operation_of(is_given_up=is_given_up(ask))
        return self._watch.settling(operation, [ask.queue], [ask.message])

    def _send_back(self, ask: SendBack) -> None:
        """Send a message back; one that is given up goes to the dead letters with its reason."""
        if not is_given_up(ask):
            self._take_back(ask)
            return
        try:
            self._send_copy(copy_to_retry(ask, self._settings.retry_topic))
        except FlintError as error:
            log.warning(
                "%s: the reason cannot be stored with it: %s", ask.message.message_id, error
            )
            self._take_back(ask)
        self._on_dead(
            f"{ask.queue}: message {ask.message.message_id} at offset {ask.message.queue_offset} "
            f"is a dead letter of group {self._settings.group!r}: {short_reason(ask)}"
        )

    def _take_back(self, ask: SendBack) -> None:
        address = self._masters.address(ask.queue)
        asked = send_back_request(
            ask, self._settings.wire_group, unit_mode=self._settings.unit_mode
        )
        reply = self._line.make(Call(address, asked, SEND_BACK_TIMEOUT_MS))
        if reply.code != _SUCCESS:
            raise refusal(reply, address)

    def _send_copy(self, copy: SendToRetry) -> None:
        queues = near(copy.ask.queue, self._publish_queues(copy.topic))
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
