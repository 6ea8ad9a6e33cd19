"""A client in each of its states when the broker goes away, and what must hold afterwards.

    enter ──► the broker leaves ──► meanwhile ──► it comes back ──► check ──► close

`meanwhile` does what a program does that knows nothing of it, and does not wait for it.  Every
error a call gives is kept, and must be one of ours.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, ClassVar

from flintmq import (
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    Producer,
    PullConsumer,
    PullContext,
    PushConsumer,
    QueueRef,
    Retry,
    ScheduledPull,
    SendReceipt,
)
from flintmq.core.group.listener_results import ListenerResult
from flintmq.errors import FlintError
from flintmq.model.message import ReceivedMessage
from support.client.outages import QUICK, Servers, lag, new_topic, patiently, tell
from support.client.push_support import Ear, numbered
from support.client.support import stored

BROKER = "broker-a"
QUEUES = 2


class Scene:
    """One client in one state.  ``must_notice``: calls fail while the broker does not answer."""

    must_notice: ClassVar = False

    def __init__(self, servers: Servers, kind: str) -> None:
        self.servers = servers
        self.topic = self.group = f"{type(self).__name__}-{kind}"
        self.errors: list[BaseException] = []
        self.over = threading.Event()
        self._threads: list[threading.Thread] = []
        new_topic(servers, self.topic, QUEUES)

    def enter(self) -> None:
        """Bring the client into the state."""

    def meanwhile(self) -> None:
        """The broker is away."""

    def check(self) -> None:
        """It is back: everything goes on."""

    def close(self) -> None:
        """Leave nothing running."""
        self.over.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), f"{self.topic} hangs"
        strange = [error for error in self.errors if not isinstance(error, FlintError)]
        assert not strange, strange

    # What scenes have in common

    @property
    def settings(self) -> dict[str, Any]:
        return {"namesrv": self.servers.namesrv, **QUICK}

    def attempt(self, act: Callable[[], object]) -> bool:
        """Whether a call did what it should; if not, its error is kept."""
        try:
            act()
        except BaseException as error:
            self.errors.append(error)
            return False
        return True

    def run(self, act: Callable[[], object]) -> None:
        """Call it once on a thread."""
        thread = threading.Thread(target=lambda: self.attempt(act), name=f"scene {self.topic}")
        self._threads.append(thread)
        thread.start()

    def repeat(self, act: Callable[[], object]) -> None:
        """Call it again and again on a thread until the end."""

        def loop() -> None:
            while not self.over.is_set():
                if not self.attempt(act):
                    self.over.wait(0.05)

        self.run(loop)


# Push consumers


class PushScene(Scene):
    """A push consumer whose listener does what the scene says."""

    more: ClassVar[dict[str, Any]] = {}

    def __init__(self, servers: Servers, kind: str) -> None:
        super().__init__(servers, kind)
        self.ear = Ear()
        self.gate = threading.Event()
        self.entered = threading.Semaphore(0)
        self.consumer = self.new_consumer()

    def new_consumer(self) -> PushConsumer:
        settings = {"start_from": "first", "pull_error_delay_ms": 50, **self.settings, **self.more}
        consumer = PushConsumer(self.group, self.listen, rebalance_interval_ms=1_000, **settings)
        return consumer.subscribe(self.topic)

    def listen(self, messages: tuple[ReceivedMessage, ...]) -> ListenerResult:
        self.ear(messages)
        return None

    def held_up(self, messages: tuple[ReceivedMessage, ...]) -> None:
        """A listener that waits for the gate."""
        self.entered.release()
        self.gate.wait(60)
        self.ear(messages)

    def has(self, bodies: list[bytes]) -> bool:
        return set(self.ear.bodies) >= set(bodies)

    def goes_on(self, before: list[bytes]) -> None:
        """What was there is consumed, and what comes is; and all of it is committed."""
        patiently(lambda: self.has(before))
        tell(self.servers, self.topic, [b"after"])
        patiently(lambda: self.has([b"after"]))
        assert self.consumer.stop() == []
        assert lag(self.servers, self.group, self.topic) == 0

    def close(self) -> None:
        self.gate.set()
        self.attempt(self.consumer.stop)
        super().close()


class PushStarts(PushScene):
    """The start is under way."""

    def enter(self) -> None:
        tell(self.servers, self.topic, numbered(20))

    def meanwhile(self) -> None:
        self.run(self.consumer.start)

    def check(self) -> None:
        for thread in self._threads:
            thread.join(60)
        if self.errors:  # it failed, and may be tried again
            self.consumer.start()
        self.goes_on(numbered(20))


class PushWaits(PushScene):
    """A pull is held at the broker."""

    def enter(self) -> None:
        tell(self.servers, self.topic, numbered(4))
        self.consumer.start()
        patiently(lambda: self.has(numbered(4)))
        patiently(self.waits)

    def waits(self) -> bool:
        own = [q for q in self.consumer.status().queues if q.queue.topic == self.topic]
        return len(own) == QUEUES and all(q.waits_for == "pull" for q in own)

    def check(self) -> None:
        self.goes_on([])


class PushPulls(PushScene):
    """Pulls come and go."""

    more: ClassVar = {"pull_batch_max": 1}

    def enter(self) -> None:
        tell(self.servers, self.topic, numbered(300))
        self.consumer.start()
        patiently(lambda: len(self.ear.messages) >= 20)

    def listen(self, messages: tuple[ReceivedMessage, ...]) -> ListenerResult:
        self.over.wait(0.002)
        return super().listen(messages)

    def check(self) -> None:
        self.goes_on(numbered(300))


class PushListens(PushScene):
    """Listeners are at work, and end while the broker is away."""

    def enter(self) -> None:
        tell(self.servers, self.topic, numbered(6))
        self.consumer.start()
        for _ in range(6):
            assert self.entered.acquire(timeout=60)

    def listen(self, messages: tuple[ReceivedMessage, ...]) -> ListenerResult:
        self.held_up(messages)
        return None

    def meanwhile(self) -> None:
        self.gate.set()

    def check(self) -> None:
        self.goes_on(numbered(6))


class PushSendsBack(PushListens):
    """Messages are sent back."""

    def listen(self, messages: tuple[ReceivedMessage, ...]) -> ListenerResult:
        body = messages[0].body
        if body in self.failed or body == b"after":
            return PushScene.listen(self, messages)
        self.failed.add(body)
        self.entered.release()
        self.gate.wait(60)
        return Retry(delay_level=1)

    def enter(self) -> None:
        self.failed: set[bytes] = set()
        super().enter()


class PushOrdered(PushScene):
    """Queues are locked, and consumed in order."""

    more: ClassVar = {"ordered": True}

    def enter(self) -> None:
        tell(self.servers, self.topic, numbered(80))
        self.consumer.start()
        patiently(lambda: len(self.ear.messages) >= 10)

    def listen(self, messages: tuple[ReceivedMessage, ...]) -> ListenerResult:
        self.over.wait(0.002)
        return super().listen(messages)

    def check(self) -> None:
        self.goes_on(numbered(80))
        first_seen: dict[int, dict[int, None]] = defaultdict(dict)
        for message in self.ear.messages:
            first_seen[message.queue_id].setdefault(message.queue_offset)
        for offsets in first_seen.values():
            assert list(offsets) == sorted(offsets)


class PushStops(PushListens):
    """A stop waits for listeners."""

    def meanwhile(self) -> None:
        self.run(lambda: self.consumer.stop(timeout_s=3))
        self.gate.set()

    def check(self) -> None:
        for thread in self._threads:
            thread.join(60)
        self.consumer = self.new_consumer().start()
        self.goes_on(numbered(6))


# Consumers that pull


class Pulls(Scene):
    """A program pulls, blocking."""

    def __init__(self, servers: Servers, kind: str) -> None:
        super().__init__(servers, kind)
        self.bodies: set[bytes] = set()
        self.consumer = PullConsumer(self.group, **self.settings, hold_ms=1_000)

    def enter(self) -> None:
        tell(self.servers, self.topic, numbered(10))
        self.consumer.start()
        self.consumer.share_topic(self.topic)
        for number in range(QUEUES):
            self.repeat(partial(self.pull, QueueRef(self.topic, BROKER, number)))
        patiently(lambda: self.bodies >= set(numbered(10)))

    def pull(self, queue: QueueRef) -> None:
        offset = self.consumer.committed(queue) or 0
        result = self.consumer.pull_blocking(queue, offset)
        self.bodies.update(message.body for message in result.messages)
        self.consumer.update_offset(queue, result.next_offset)

    def check(self) -> None:
        tell(self.servers, self.topic, numbered(10, 10))
        patiently(lambda: self.bodies >= set(numbered(20)))
        self.over.set()
        self.stop()
        assert lag(self.servers, self.group, self.topic) == 0

    def stop(self) -> None:
        for thread in self._threads:
            thread.join(60)
        self.consumer.stop()

    def close(self) -> None:
        self.over.set()
        self.attempt(self.stop)
        super().close()


class Polls(Scene):
    """A program polls, seeks and commits."""

    def __init__(self, servers: Servers, kind: str) -> None:
        super().__init__(servers, kind)
        self.bodies: set[bytes] = set()
        self.consumer = LitePullConsumer(
            self.group,
            start_from=ConsumeFromWhere.FIRST_OFFSET,
            rebalance_interval_ms=1_000,
            pull_error_delay_ms=50,
            **self.settings,
        )

    def enter(self) -> None:
        tell(self.servers, self.topic, numbered(10))
        self.consumer.start()
        self.consumer.subscribe(self.topic)
        self.repeat(self.poll)
        patiently(lambda: self.bodies >= set(numbered(10)))

    def poll(self) -> None:
        self.bodies.update(message.body for message in self.consumer.poll(200))

    def meanwhile(self) -> None:
        self.run(self.consumer.commit)
        for queue in self.consumer.assignment:
            self.run(partial(self.consumer.seek_to_start, queue))

    def check(self) -> None:
        polling, *others = self._threads
        for thread in others:  # a seek that ends later would move what is to be committed
            thread.join(60)
        tell(self.servers, self.topic, numbered(10, 10))
        patiently(lambda: self.bodies >= set(numbered(20)))
        self.over.set()
        polling.join(60)
        self.consumer.stop()
        assert lag(self.servers, self.group, self.topic) == 0

    def close(self) -> None:
        super().close()
        self.attempt(self.consumer.stop)


class Scheduled(Scene):
    """Functions pull."""

    def __init__(self, servers: Servers, kind: str) -> None:
        super().__init__(servers, kind)
        self.bodies: set[bytes] = set()
        self.schedule = ScheduledPull(self.group, **self.settings, rebalance_interval_ms=1_000)
        self.schedule.register(self.topic, self.pull)

    def pull(self, queue: QueueRef, context: PullContext[PullConsumer]) -> None:
        context.next_delay_ms = 20
        result = context.consumer.pull(queue, context.consumer.committed(queue) or 0)
        self.bodies.update(message.body for message in result.messages)
        context.consumer.update_offset(queue, result.next_offset)

    def enter(self) -> None:
        tell(self.servers, self.topic, numbered(10))
        self.schedule.start()
        patiently(lambda: self.bodies >= set(numbered(10)))

    def check(self) -> None:
        tell(self.servers, self.topic, numbered(10, 10))
        patiently(lambda: self.bodies >= set(numbered(20)))
        self.schedule.stop()
        assert lag(self.servers, self.group, self.topic) == 0

    def close(self) -> None:
        self.attempt(self.schedule.stop)
        super().close()


# Producers


class Sends(Scene):
    """A producer sends one message after the other."""

    must_notice = True

    def __init__(self, servers: Servers, kind: str) -> None:
        super().__init__(servers, kind)
        self.producer = Producer(self.group, **self.settings)
        self.acknowledged: set[bytes] = set()
        self._count = 0

    def next_message(self) -> Message:
        self._count += 1
        return Message(self.topic, b"%06d" % self._count)

    def enter(self) -> None:
        self.producer.start()
        self.repeat(self.send)
        patiently(lambda: len(self.acknowledged) >= 10)

    def send(self) -> None:
        self.over.wait(0.005)
        message = self.next_message()
        self.producer.send(message, timeout_ms=1_000)
        self.acknowledged.add(message.body)

    def check(self) -> None:
        enough = len(self.acknowledged) + 20
        patiently(lambda: len(self.acknowledged) >= enough)
        self.over.set()
        for thread in self._threads:
            thread.join(60)
        self.producer.stop()
        kept = {message.body for message in stored(self.servers, self.topic)}
        assert kept >= self.acknowledged

    def close(self) -> None:
        super().close()
        self.attempt(self.producer.stop)


class SendsAsync(Sends):
    """Many sends are under way."""

    def send(self) -> None:
        self.over.wait(0.01)
        sends = []
        for _ in range(10):
            message = self.next_message()
            sends.append((message, self.producer.send_async(message, timeout_ms=1_000)))
        for message, future in sends:
            self.attempt(partial(self.answered, message, future))

    def answered(self, message: Message, answer: Future[SendReceipt]) -> None:
        answer.result(60)
        self.acknowledged.add(message.body)


class SendsBatches(Sends):
    """A producer sends batches."""

    def send(self) -> None:
        self.over.wait(0.01)
        messages = [self.next_message() for _ in range(10)]
        self.producer.send_batch(messages, timeout_ms=1_000)
        self.acknowledged.update(message.body for message in messages)


class SendsOneway(Sends):
    """A producer does not ask what became of its messages."""

    must_notice = False

    def send(self) -> None:
        self.over.wait(0.005)
        message = self.next_message()
        self.producer.send_oneway(message, timeout_ms=1_000)
        self.acknowledged.add(message.body)

    def check(self) -> None:
        """What was under way may be lost; what is sent from now on is not."""
        before = set(self.acknowledged)
        patiently(lambda: len(self.acknowledged - before) >= 20)
        self.over.set()
        for thread in self._threads:
            thread.join(60)
        self.producer.stop()
        last = max(self.acknowledged)
        patiently(lambda: last in {message.body for message in stored(self.servers, self.topic)})


SCENES: tuple[type[Scene], ...] = (
    PushStarts,
    PushWaits,
    PushPulls,
    PushListens,
    PushSendsBack,
    PushOrdered,
    PushStops,
    Pulls,
    Polls,
    Scheduled,
    Sends,
    SendsAsync,
    SendsBatches,
    SendsOneway,
)
