"""Sending: which queue, how often, and what an answer means.

    choose a queue ─► ask its master ─► stored ───────────────► receipt
         ▲                  │
         │                  ├─ unreachable, or a code that
         └──── another ◄────┘  another broker may not give
                            └─ any other code ───────────────► BrokerRefused
    tries or time used up ───────────────────────────────────► SendFailed

Tries share one timeout.  The next try goes to another broker where there is one; where there is
none, the send waits for the broker it has, as `core.producer.send_patience` says.  A message for
one given queue waits for its broker too, and goes nowhere else.

A try that got no answer may have been stored.  So a message can be stored twice, under one id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from flintmq.core.ask import refusal
from flintmq.core.conversation import Call, Pause, PausingConversation
from flintmq.core.producer.broker_faults import Avoidance, BrokerFaults
from flintmq.core.producer.queue_choice import QueueChoice, RoutedQueues
from flintmq.core.producer.receipt import STORED, SendReceipt, SendStatus, receipt_of
from flintmq.core.producer.send_draft import Draft
from flintmq.core.producer.send_patience import SendPatience, is_passing
from flintmq.core.routes import Routes
from flintmq.errors import (
    BrokerRefused,
    FlintError,
    InvalidSetting,
    RemoteProtocolError,
    SendFailed,
    Unreachable,
)
from flintmq.model.queue import QueueRef
from flintmq.model.topic import AUTO_CREATE_TOPIC
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import LANGUAGE, ONEWAY_BIT, VERSION, Command
from flintmq.protocol.headers.send_template import SendFields
from flintmq.protocol.version import version_name, version_number

RETRIES: Final = 2
"""Tries after the first, as in RocketMQ, where a failure does not pass by itself."""

WHAT_TO_DO: Final = "see that the broker runs, or give the send more time (timeout_ms)"
"""What the error of a send says whose broker stayed away."""

TIMERS_SINCE: Final = version_number("V5_0_0")
"""Brokers from here on know times of delivery; earlier ones deliver such a message at once."""

TRY_ANOTHER: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""Refusals that another broker, or the same one later, may not give."""


def may_try_again(error: BaseException) -> bool:
    """Whether a send that failed so may be tried again, at another broker or later.

    The one rule for producers, the Spark sink and replays of dead letters.
    """
    if isinstance(error, BrokerRefused):
        return error.code in TRY_ANOTHER
    if isinstance(error, RemoteProtocolError):  # of one connection, which is closed by it
        return True
    return isinstance(error, FlintError) and error.retriable


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRules:
    """The settings of a producer that are about sending."""

    retries: int = RETRIES
    retry_unsafe: bool = False
    """Whether a message that was stored, but not as safely as asked for, is sent again."""
    avoidance: Avoidance = Avoidance.OFF
    default_topic: str = AUTO_CREATE_TOPIC
    default_queue_count: int = 4
    unit_mode: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.retries <= 100:
            raise InvalidSetting("retries", str(self.retries), "is 0 to 100")
        if not 1 <= self.default_queue_count <= 65_535:
            raise InvalidSetting(
                "default_queue_count", str(self.default_queue_count), "is 1 to 65535"
            )


class Watch(Protocol):
    """Whoever wants to see every try of one send."""

    def leaving(self, draft: Draft, queue: QueueRef, address: str) -> None:
        """A try begins; every one that does also ends."""

    def ended(self, answer: Command | None, error: BaseException | None) -> None:
        """A try was answered, or failed; neither is given for a oneway request that left."""


class Publisher:
    """The sending side of one producer group.

    ``on_trouble(topic, broker, text, is_first)`` hears of every try that failed, and whether it is
    the first of a send at that broker; what it raises ends the send.  ``version_of`` gives the
    version of the broker at an address where it is known.
    """

    def __init__(
        self,
        group: str,
        routes: Routes,
        *,
        clock: Callable[[], int],
        chance: Callable[[], float],
        rules: SendRules | None = None,
        on_trouble: Callable[[str, str, str, bool], None] | None = None,
        version_of: Callable[[str], int | None] | None = None,
    ) -> None:
        self.group = group
        self.rules = rules or SendRules()
        self.faults = BrokerFaults(self.rules.avoidance)
        self._routes = routes
        self._clock = clock
        self._chance = chance
        self._on_trouble = on_trouble
        self._version_of = version_of
        self._choice = QueueChoice(self.faults, chance)

    def send(
        self,
        draft: Draft,
        queues: Sequence[QueueRef],
        timeout_ms: int,
        watch: Watch | None = None,
    ) -> PausingConversation[SendReceipt]:
        """Send to one of the queues, and to another if that fails."""
        rules, clock = self.rules, self._clock
        start_ms = now_ms = clock()
        left_ms = timeout_ms
        lane = self._choice.lane(draft.topic, queues)
        is_whole_route = queues is self._routes.publish_queues(draft.topic)
        index = self._choice.choose(lane, None, now_ms)
        tried: list[str] = []
        outcome: Call | SendReceipt | FlintError | None = None
        unsafe: SendReceipt | None = None
        patience: SendPatience | None = None
        while left_ms > 0:
            broker = lane.queues[index].broker
            tried.append(broker)
            outcome = self._call(draft, lane, index, left_ms)
            if isinstance(outcome, Call):
                try:
                    if watch is None:
                        answer = yield outcome
                    else:
                        answer = yield from _watched(watch, draft, lane.queues[index], outcome)
                    outcome = self._judge(draft, lane, index, answer, now_ms)
                except (Unreachable, RemoteProtocolError) as error:
                    outcome = self._lost(broker, error, now_ms)
            if isinstance(outcome, SendReceipt):
                if outcome.status is SendStatus.OK or not rules.retry_unsafe:
                    return outcome
                unsafe = outcome
            self._report(draft.topic, broker, outcome, is_first=broker not in tried[:-1])
            patience = patience or SendPatience(rules.retries, self._chance)
            if not patience.failed(broker, outcome):
                break
            if is_whole_route:
                lane = self._choice.lane(draft.topic, self._newest(draft.topic, lane.queues))
            now_ms = clock()
            index = self._choice.choose(lane, broker, now_ms)
            left_ms = timeout_ms - (now_ms - start_ms)
            wait_ms = patience.wait_ms(lane.queues[index].broker, left_ms)
            if wait_ms:
                yield Pause(wait_ms)
                now_ms = clock()
                left_ms = timeout_ms - (now_ms - start_ms)
        if unsafe is not None:
            return unsafe
        failure = outcome if isinstance(outcome, FlintError) else None
        raise _given_up(draft, tried, clock() - start_ms, timeout_ms, failure) from failure

    def _newest(self, topic: str, queues: Sequence[QueueRef]) -> Sequence[QueueRef]:
        """The queues of the topic by its newest route; those that were given if it has none."""
        return self._routes.publish_queues(topic) or queues

    def _call(
        self, draft: Draft, lane: RoutedQueues, index: int, timeout_ms: int
    ) -> Call | Unreachable:
        """The next try, or why there is none to make."""
        broker = lane.queues[index].broker
        address = self._routes.address(broker)
        if address is None:
            return _no_master(broker)
        if draft.is_timed:
            self._check_timed(draft, broker, address)
        return Call(address, self._request(draft, lane, index), timeout_ms)

    def _judge(
        self, draft: Draft, lane: RoutedQueues, index: int, answer: Command, start_ms: int
    ) -> SendReceipt | BrokerRefused:
        """What an answer means.  A refusal that no other try can mend is raised."""
        queue, faults = lane.queues[index], self.faults
        status = STORED.get(answer.code)
        if status is not None:
            if faults.is_on:
                now_ms = self._clock()
                faults.answered(queue.broker, now_ms - start_ms, now_ms)
            return receipt_of(answer, draft, queue, status)
        address = self._routes.address(queue.broker) or queue.broker
        refused = refusal(answer, address)
        if not may_try_again(refused):
            raise refused
        now_ms = self._clock()
        faults.failed(queue.broker, now_ms - start_ms, now_ms, reachable=True)
        return refused

    def _lost(self, broker: str, error: FlintError, start_ms: int) -> FlintError:
        now_ms = self._clock()
        self.faults.failed(broker, now_ms - start_ms, now_ms, reachable=False)
        return error

    def _report(
        self, topic: str, broker: str, outcome: SendReceipt | FlintError, *, is_first: bool
    ) -> None:
        """A try came to nothing."""
        if self._on_trouble is not None:
            self._on_trouble(topic, broker, _trouble(outcome), is_first)

    def send_to(
        self, draft: Draft, queue: QueueRef, timeout_ms: int, watch: Watch | None = None
    ) -> PausingConversation[SendReceipt]:
        """Send to exactly this queue; wait for an unreachable broker, within the timeout."""
        clock = self._clock
        start_ms = clock()
        left_ms, tries = timeout_ms, 0
        lane = RoutedQueues((queue,), 0)
        patience: SendPatience | None = None
        while True:
            tries += 1
            outcome = self._call(draft, lane, 0, max(1, left_ms))
            if isinstance(outcome, Call):
                try:
                    answer = yield from _watched(watch, draft, queue, outcome)
                except (Unreachable, RemoteProtocolError) as error:
                    failure: FlintError = error
                else:
                    status = STORED.get(answer.code)
                    if status is not None:
                        return receipt_of(answer, draft, queue, status)
                    failure = refusal(answer, outcome.address)
            else:
                failure = outcome
            if not is_passing(failure):
                raise failure
            self._report(draft.topic, queue.broker, failure, is_first=tries == 1)
            patience = patience or SendPatience(self.rules.retries, self._chance)
            if not patience.failed(queue.broker, failure):
                raise failure
            left_ms = timeout_ms - (clock() - start_ms)
            if left_ms > 0:
                yield Pause(patience.wait_ms(queue.broker, left_ms))
                left_ms = timeout_ms - (clock() - start_ms)
            if left_ms <= 0:
                raise _still_away(failure, tries, clock() - start_ms) from failure

    def send_oneway(
        self,
        draft: Draft,
        queues: Sequence[QueueRef],
        timeout_ms: int,
        watch: Watch | None = None,
    ) -> PausingConversation[None]:
        """Send without wanting to know how it went; one try."""
        lane = self._choice.lane(draft.topic, queues)
        index = self._choice.choose(lane, None, self._clock())
        address = self._address(lane.queues[index])
        if draft.is_timed:
            self._check_timed(draft, lane.queues[index].broker, address)
        call = Call(address, self._request(draft, lane, index, flag=ONEWAY_BIT), timeout_ms)
        yield from _watched(watch, draft, lane.queues[index], call)

    def _request(self, draft: Draft, lane: RoutedQueues, index: int, flag: int = 0) -> Command:
        key = index, draft.is_batch
        fields = lane.fields.get(key)
        if fields is None or draft.reconsume_times or draft.max_reconsume_times:
            fields = self._fields(draft, lane.queues[index])
            if not draft.reconsume_times and not draft.max_reconsume_times:
                lane.fields[key] = fields
        return Command(
            draft.code,
            0,
            flag,
            VERSION,
            LANGUAGE,
            None,
            fields.fill(draft.sys_flag, draft.born_ms, draft.flag, draft.properties),
            draft.body,
        )

    def _fields(self, draft: Draft, queue: QueueRef) -> SendFields:
        return SendFields(
            self.group,
            draft.topic,
            queue.queue_id,
            queue.broker,
            default_topic=self.rules.default_topic,
            default_queue_count=self.rules.default_queue_count,
            reconsume_times=draft.reconsume_times,
            max_reconsume_times=draft.max_reconsume_times,
            unit_mode=self.rules.unit_mode,
            is_batch=draft.is_batch,
        )

    def _address(self, queue: QueueRef) -> str:
        address = self._routes.address(queue.broker)
        if address is None:
            raise _no_master(queue.broker)
        return address

    def _check_timed(self, draft: Draft, broker: str, address: str) -> None:
        version = None if self._version_of is None else self._version_of(address)
        if version is not None and version < TIMERS_SINCE:
            raise InvalidSetting(
                "delay_ms or deliver_at_ms",
                draft.topic,
                f"{broker} is {version_name(version)} and would deliver at once; "
                "brokers from 5.0 on can wait for a time, older ones only by delay_level",
            )


def _watched(
    watch: Watch | None, draft: Draft, queue: QueueRef, call: Call
) -> PausingConversation[Command]:
    """Make a call that somebody may want to see."""
    if watch is None:
        return (yield call)
    watch.leaving(draft, queue, call.address)
    try:
        answer = yield call
    except BaseException as error:
        watch.ended(None, error)
        raise
    watch.ended(None if call.request.is_oneway else answer, None)
    return answer


def _no_master(broker: str) -> Unreachable:
    return Unreachable(broker, "no master of this broker is known")


def _trouble(outcome: SendReceipt | FlintError) -> str:
    if isinstance(outcome, SendReceipt):
        return f"stored, but {outcome.status}"
    return str(outcome)


def _still_away(failure: FlintError, tries: int, elapsed_ms: int) -> FlintError:
    """The failure of a send to one queue, with how often and how long it was tried."""
    if tries == 1 or not isinstance(failure, Unreachable):
        return failure
    tried = f"{failure.reason} (tried {tries} times in {elapsed_ms} ms; {WHAT_TO_DO})"
    return Unreachable(failure.address, tried)


def _given_up(
    draft: Draft, tried: list[str], elapsed_ms: int, timeout_ms: int, failure: FlintError | None
) -> SendFailed:
    code = failure.code if isinstance(failure, BrokerRefused) else 0
    reason = f"{timeout_ms} ms are over" if failure is None else str(failure)
    if failure is not None and is_passing(failure):
        reason += f"; {WHAT_TO_DO}"
    brokers = ",".join(dict.fromkeys(tried))
    return SendFailed(draft.topic, len(tried), elapsed_ms, brokers, code, reason)
