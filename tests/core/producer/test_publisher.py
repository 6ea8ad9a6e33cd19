"""A send chooses queues in turn, tries again where that may help, and says what came of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flintmq.core.conversation import Call
from flintmq.core.producer.broker_faults import Avoidance
from flintmq.core.producer.publisher import (
    TIMERS_SINCE,
    TRY_ANOTHER,
    Publisher,
    SendRules,
    may_try_again,
)
from flintmq.core.producer.queue_choice import queue_of_key
from flintmq.core.producer.receipt import SendReceipt, SendStatus, receipts_of_batch
from flintmq.core.producer.send_draft import Draft
from flintmq.core.producer.send_patience import BUSY_FIRST_MS, LOST_MAX_MS, TRIES_MAX
from flintmq.core.routes import Routes
from flintmq.errors import (
    BrokerRefused,
    InvalidSetting,
    LocalProtocolError,
    MalformedFrame,
    NoRoute,
    PartlySent,
    SendFailed,
    Unreachable,
)
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.route import BrokerReplicas, QueueCounts, Route
from flintmq.model.topic import READ_WRITE
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.send import SendAnswer, SendMessageV2
from support.core.routing import route
from support.core.talk import HandClock, Reply, Talk, reply

DRAFT = Draft("t", b"body", "UNIQ_KEY\x01id\x02", "id", 1_700)
GONE = Unreachable("a:0", "refused")


class World:
    """Two brokers with two queues each, a clock and a publisher."""

    def __init__(
        self,
        rules: SendRules | None = None,
        *brokers: str,
        version: int | None = 479,
        chance: float = 0.0,
    ) -> None:
        self.clock = HandClock()
        self.routes = Routes()
        self.routes.update("t", route(*(brokers or ("a", "b"))))
        queues = self.routes.publish_queues("t")
        assert queues is not None
        self.queues = queues
        self.troubles: list[tuple[str, str, str, bool]] = []
        self.publisher = Publisher(
            "group",
            self.routes,
            clock=self.clock,
            chance=lambda: chance,
            rules=rules,
            on_trouble=lambda *trouble: self.troubles.append(trouble),
            version_of=lambda _: version,
        )

    def send(self, talk: Talk, draft: Draft = DRAFT, timeout_ms: int = 3_000) -> SendReceipt:
        return talk.hold(self.publisher.send(draft, self.queues, timeout_ms))


def stored(queue_id: int = 0, code: int = 0, queue_offset: int = 7) -> Reply:
    header = SendAnswer(
        msg_id="OFFSETID",
        queue_id=queue_id,
        queue_offset=queue_offset,
        transaction_id="id",
        trace_on="true",
        region="here",
    )
    return reply(code, header)


def taken(call: Call) -> Reply:
    """A broker that takes everything."""
    return stored(call.request.header(SendMessageV2).queue_id)


def test_queues_take_turns_from_a_random_start() -> None:
    world = World(chance=0.25)  # 0.25 · 2³¹ is a multiple of four

    receipts = [world.send(Talk(taken)) for _ in range(5)]

    assert [(each.queue.broker, each.queue.queue_id) for each in receipts] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 1),
        ("a", 0),
    ]
    other = World(chance=0.25 + 1 / 2**31)
    assert other.send(Talk(taken)).queue.queue_id == 1


def test_each_topic_has_its_own_turn() -> None:
    world = World()
    world.routes.update("u", route("a", "b"))
    queues = world.routes.publish_queues("u")
    assert queues is not None
    other = Draft("u", b"body", "", "id", 0)

    used = []
    for _ in range(4):
        used.append(world.send(Talk(taken)).queue)
        Talk(taken).hold(world.publisher.send(other, queues, 3_000))

    assert len(set(used)) == 4, "two topics in alternation use all queues"


def test_a_request_says_all_that_a_java_producer_says() -> None:
    world = World()
    talk = Talk(taken)
    draft = Draft("t", b"body", "TAGS\x01x\x02", "id", 1_700, sys_flag=769, flag=5)

    world.send(talk, draft)

    (call,) = talk.calls
    assert call.address == "a:0"
    assert call.request.code == RequestCode.SEND_MESSAGE_V2
    assert call.request.body == b"body"
    assert call.request.header(SendMessageV2) == SendMessageV2(
        producer_group="group",
        topic="t",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=769,
        born_timestamp=1_700,
        flag=5,
        properties="TAGS\x01x\x02",
        reconsume_times=0,
        unit_mode=False,
        is_batch=False,
        broker_name="a",
    )


def test_a_receipt_says_where_the_message_is() -> None:
    receipt = World().send(Talk([stored(queue_offset=12)]))

    assert receipt == SendReceipt(
        SendStatus.OK, "id", "OFFSETID", QueueRef("t", "a", 0), QueueOffset(12), "id", "here"
    )


def test_the_broker_may_name_another_queue() -> None:
    assert World().send(Talk([stored(queue_id=5)])).queue == QueueRef("t", "a", 5)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, SendStatus.OK),
        (10, SendStatus.FLUSH_DISK_TIMEOUT),
        (11, SendStatus.SLAVE_NOT_AVAILABLE),
        (12, SendStatus.FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_four_codes_mean_stored(code: int, status: SendStatus) -> None:
    talk = Talk([stored(code=code)])

    assert World().send(talk).status is status
    assert len(talk.calls) == 1


def test_what_is_not_safe_is_sent_again_only_if_asked_for() -> None:
    world = World(SendRules(retry_unsafe=True))
    talk = Talk([stored(code=10), stored()])

    assert world.send(talk).status is SendStatus.OK
    assert talk.addresses == ["a:0", "b:0"]
    assert world.troubles == [("t", "a", "stored, but FLUSH_DISK_TIMEOUT", True)]


def test_what_is_never_safe_is_stored_all_the_same() -> None:
    world = World(SendRules(retry_unsafe=True))

    receipt = world.send(Talk([stored(code=10), stored(code=11), GONE]))

    assert receipt.status is SendStatus.SLAVE_NOT_AVAILABLE


def test_an_unreachable_broker_is_followed_by_another() -> None:
    world = World()
    talk = Talk([GONE, stored()])

    assert world.send(talk).queue.broker == "b"
    assert talk.addresses == ["a:0", "b:0"]
    assert talk.pauses == []
    assert world.troubles == [("t", "a", "a:0: refused", True)]


def test_with_one_broker_the_same_is_tried_again() -> None:
    world = World(None, "a")
    talk = Talk([GONE, MalformedFrame("nonsense"), stored()])

    world.send(talk)

    assert talk.addresses == ["a:0"] * 3


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (GONE, True),
        (MalformedFrame("nonsense"), True),
        (NoRoute("t", "none"), True),
        (SendFailed("t", 3, 5, "a", 0, "refused"), True),
        (PartlySent("t", 1, 2, "refused"), True),
        (BrokerRefused(ResponseCode.SYSTEM_BUSY, "busy"), True),
        (BrokerRefused(ResponseCode.MESSAGE_ILLEGAL, "too large"), False),
        (InvalidSetting("queue", "9", "there is none"), False),
        (ValueError("a bug"), False),
    ],
)
def test_one_rule_says_which_failures_may_be_tried_again(error: Exception, again: bool) -> None:
    assert may_try_again(error) is again


def test_three_refusals_and_no_more() -> None:
    world = World()
    no = reply(ResponseCode.SYSTEM_ERROR, remark="no")

    with pytest.raises(SendFailed) as caught:
        world.send(Talk([no, no, no, stored()]))

    error = caught.value
    assert (error.topic, error.tries, error.brokers, error.code) == ("t", 3, "a,b", 1)
    assert str(error.__cause__) == error.reason == "a:0 answered 1: no"


@pytest.mark.parametrize("brokers", [("a",), ("a", "b")])
@pytest.mark.parametrize(
    "failure",
    [GONE, MalformedFrame("nonsense"), reply(14), reply(2), reply(1500)],
    ids=["gone", "nonsense", "not available", "busy", "go away"],
)
def test_a_send_waits_for_a_broker_that_comes_back_within_its_time(
    brokers: tuple[str, ...], failure: Reply
) -> None:
    world = World(None, *brokers)
    back_ms = world.clock.now_ms + 7_000
    talk = Talk(lambda _: stored() if world.clock() >= back_ms else failure, clock=world.clock)

    world.send(talk, timeout_ms=10_000)

    assert world.clock() < back_ms + 2 * LOST_MAX_MS
    assert max(talk.pauses) <= 1_000
    assert sum(is_first for *_, is_first in world.troubles) == len(brokers)


def test_a_send_whose_time_is_over_says_how_often_it_was_tried_and_what_to_do() -> None:
    world = World(None, "a")
    talk = Talk(lambda _: GONE, clock=world.clock)

    with pytest.raises(SendFailed) as caught:
        world.send(talk)

    error = caught.value
    assert error.tries == len(talk.calls) > 5
    assert 2_900 <= error.elapsed_ms <= 3_000
    assert str(error) == (
        f"sending to topic 't' failed after {error.tries} tries in {error.elapsed_ms} ms "
        "(brokers: a): a:0: refused; see that the broker runs, or give the send more time "
        "(timeout_ms)"
    )
    assert error.__cause__ is GONE


def test_a_clock_that_stands_still_ends_a_send_too() -> None:
    talk = Talk(lambda _: GONE)

    with pytest.raises(SendFailed):
        World(None, "a").send(talk)
    assert len(talk.calls) == TRIES_MAX


def test_a_send_that_waits_follows_the_newest_route() -> None:
    world = World(None, "a")
    talk = Talk(lambda call: GONE if call.address == "a:0" else stored(), clock=world.clock)

    def moved(call: Call) -> Reply:
        world.routes.update("t", route("b"))
        return GONE if call.address == "a:0" else stored()

    talk.replies = moved

    assert world.send(talk).queue.broker == "b"
    assert talk.addresses == ["a:0", "b:0"]


def test_tries_are_a_setting() -> None:
    for failure in (GONE, reply(ResponseCode.SYSTEM_BUSY), reply(ResponseCode.SYSTEM_ERROR)):
        talk = Talk([failure])

        with pytest.raises(SendFailed, match="after 1 tries"):
            World(SendRules(retries=0)).send(talk)
        assert len(talk.calls) == 1


@pytest.mark.parametrize("code", sorted(TRY_ANOTHER))
def test_some_refusals_are_worth_another_try(code: int) -> None:
    talk = Talk([reply(code, remark="no"), stored()])

    World().send(talk)

    assert talk.addresses == ["a:0", "b:0"]


def test_the_codes_worth_another_try_are_those_of_rocketmq() -> None:
    assert set(TRY_ANOTHER) == {17, 14, 1, 2, 16, 204, 205, 1500}


@pytest.mark.parametrize("code", [13, 3, 29, 215, 999])
def test_any_other_refusal_comes_out_at_once(code: int) -> None:
    talk = Talk([reply(code, remark="never")])

    with pytest.raises(BrokerRefused) as caught:
        World().send(talk)
    assert (caught.value.code, caught.value.remark, caught.value.address) == (code, "never", "a:0")


def test_refused_by_all_the_last_code_comes_out() -> None:
    with pytest.raises(SendFailed) as caught:
        World().send(Talk([reply(1), reply(16), reply(17, remark="no topic")]))
    assert caught.value.code == 17


def test_our_own_mistakes_are_not_tried_again() -> None:
    talk = Talk([LocalProtocolError("too large")])

    with pytest.raises(LocalProtocolError):
        World().send(talk)
    assert len(talk.calls) == 1


def test_tries_share_one_timeout() -> None:
    world = World()

    def slow(call: Call) -> Reply:
        world.clock.now_ms += 1_200
        return GONE

    talk = Talk(slow)
    with pytest.raises(SendFailed) as caught:
        world.send(talk)

    assert [call.timeout_ms for call in talk.calls] == [3_000, 1_800, 600]
    assert caught.value.elapsed_ms == 3_600

    def slower(call: Call) -> Reply:
        world.clock.now_ms += 3_000
        return GONE

    talk = Talk(slower)
    with pytest.raises(SendFailed, match="after 1 tries"):
        world.send(talk)


def test_a_broker_without_a_master_is_a_failed_try() -> None:
    world = World()
    world.routes.update(
        "t",
        Route(
            brokers=(
                BrokerReplicas("c", "a", {1: "a:1"}),
                BrokerReplicas("c", "b", {0: "b:0"}),
            ),
            queues=(QueueCounts("a", 1, 1, READ_WRITE), QueueCounts("b", 1, 1, READ_WRITE)),
            order="a:1;b:1",
        ),
    )
    talk = Talk([stored()])
    queues = world.routes.publish_queues("t")
    assert queues is not None

    receipt = talk.hold(world.publisher.send(DRAFT, queues, 3_000))

    assert receipt.queue.broker == "b"
    assert "no master" in world.troubles[0][2]


def test_another_broker_is_asked_at_once_when_one_is_busy() -> None:
    talk = Talk([reply(ResponseCode.SYSTEM_BUSY), stored()])

    World().send(talk)

    assert talk.pauses == []


@pytest.mark.parametrize(("chance", "share"), [(0.0, 0.5), (0.5, 0.75), (0.999, 0.9995)])
def test_a_busy_broker_is_asked_again_after_a_pause_with_chance(
    chance: float, share: float
) -> None:
    world = World(None, "a", chance=chance)
    talk = Talk([reply(ResponseCode.SYSTEM_BUSY), reply(ResponseCode.SYSTEM_BUSY), stored()])

    world.send(talk)

    assert talk.pauses == [round(BUSY_FIRST_MS * share), round(2 * BUSY_FIRST_MS * share)]


def test_a_pause_never_outlasts_the_timeout() -> None:
    world = World(None, "a")
    conversation = world.publisher.send(DRAFT, world.queues, 20)
    talk = Talk([reply(ResponseCode.SYSTEM_BUSY), stored()])

    talk.hold(conversation)

    assert talk.pauses == [10]


@pytest.mark.parametrize("avoidance", [Avoidance.RELEASE_4, Avoidance.RELEASE_5])
def test_a_slow_broker_is_avoided_and_comes_back(avoidance: Avoidance) -> None:
    world = World(SendRules(avoidance=avoidance))

    def slow_a(call: Call) -> Reply:
        world.clock.now_ms += 600 if call.address == "a:0" else 1
        return taken(call)

    assert world.send(Talk(slow_a)).queue.broker == "a"
    assert {world.send(Talk(slow_a)).queue.broker for _ in range(6)} == {"b"}

    world.clock.now_ms += 30_000
    assert {world.send(Talk(taken)).queue.broker for _ in range(4)} == {"a", "b"}


def test_nobody_available_in_4_9_means_the_least_bad() -> None:
    world = World(SendRules(avoidance=Avoidance.RELEASE_4, retries=0))
    for latency_ms, broker in ((2_000, "a"), (900, "b")):
        world.publisher.faults.answered(broker, latency_ms, world.clock())

    assert world.send(Talk(taken)).queue.broker == "b"


def test_nobody_available_in_5_means_one_that_can_be_reached() -> None:
    world = World(SendRules(avoidance=Avoidance.RELEASE_5, retries=0))
    world.publisher.faults.failed("a", 1, world.clock(), reachable=False)
    world.publisher.faults.failed("b", 1, world.clock(), reachable=True)

    assert {world.send(Talk(taken)).queue.broker for _ in range(4)} == {"b"}


@pytest.mark.parametrize(("start", "broker"), [(0, "a"), (2, "b")])
def test_nobody_reachable_means_whose_turn_it_is(start: int, broker: str) -> None:
    world = World(SendRules(avoidance=Avoidance.RELEASE_5, retries=0), chance=start / 2**31)
    for each in "ab":
        world.publisher.faults.failed(each, 1, world.clock(), reachable=False)

    assert world.send(Talk(taken)).queue.broker == broker


def test_a_least_bad_broker_that_does_not_have_the_topic_is_forgotten() -> None:
    world = World(SendRules(avoidance=Avoidance.RELEASE_4, retries=0), "a")
    world.publisher.faults.failed("a", 9, world.clock(), reachable=True)
    world.publisher.faults.failed("elsewhere", 1, world.clock(), reachable=True)

    assert world.send(Talk(taken)).queue.broker == "a"
    assert world.publisher.faults.is_available("elsewhere", world.clock())


ONE = QueueRef("t", "b", 1)


def test_a_message_for_one_queue_waits_for_its_broker_and_goes_nowhere_else() -> None:
    world = World()
    back_ms = world.clock.now_ms + 2_000
    talk = Talk(lambda _: stored(1) if world.clock() >= back_ms else GONE, clock=world.clock)

    receipt = talk.hold(world.publisher.send_to(DRAFT, ONE, 3_000))

    assert receipt.queue == ONE
    assert set(talk.addresses) == {"b:0"}


@pytest.mark.parametrize("code", [1, 17, 13])
def test_a_message_for_one_queue_is_not_tried_again_where_its_broker_refuses_it(code: int) -> None:
    with pytest.raises(BrokerRefused):
        Talk([reply(code)]).hold(World().publisher.send_to(DRAFT, ONE, 3_000))


def test_a_message_for_a_queue_whose_broker_stays_away_fails_in_its_time() -> None:
    world = World()
    start_ms = world.clock()
    with pytest.raises(Unreachable, match=r"no master of this broker is known .tried \d+ times in"):
        Talk([], clock=world.clock).hold(
            world.publisher.send_to(DRAFT, QueueRef("t", "nobody", 1), 3_000)
        )
    assert 2_900 <= world.clock() - start_ms <= 3_000

    with pytest.raises(Unreachable):
        Talk([GONE]).hold(World(SendRules(retries=0)).publisher.send_to(DRAFT, ONE, 3_000))


def test_a_oneway_send_wants_no_answer() -> None:
    world = World()
    talk = Talk([reply(0)])

    talk.hold(world.publisher.send_oneway(DRAFT, world.queues, 3_000))

    assert talk.calls[0].request.is_oneway


def test_a_batch_and_a_retried_message_say_so_in_their_header() -> None:
    world = World(None, "a")
    talk = Talk(taken)

    world.send(talk, Draft("t", b"x", "", "id", 0, code=320, is_batch=True))
    world.send(talk, Draft("t", b"x", "", "id", 0, reconsume_times=3, max_reconsume_times=16))
    world.send(talk)

    headers = [call.request.header(SendMessageV2) for call in talk.calls]
    assert [header.is_batch for header in headers] == [True, False, False]
    assert [header.reconsume_times for header in headers] == [0, 3, 0]
    assert [header.max_reconsume_times for header in headers] == [None, 16, None]


@pytest.mark.parametrize("send", ["send", "send_to", "send_oneway"])
def test_a_timed_message_is_not_given_to_a_broker_that_would_deliver_it_at_once(send: str) -> None:
    world = World(version=TIMERS_SINCE - 2)
    timed = Draft("t", b"x", "", "id", 0, is_timed=True)
    target = QueueRef("t", "a", 0) if send == "send_to" else world.queues
    act: Callable[..., object] = getattr(world.publisher, send)

    with pytest.raises(InvalidSetting, match="V4_9_9"):
        Talk([]).hold(act(timed, target, 3_000))  # type: ignore[arg-type]  # one of three


def test_a_timed_message_is_given_to_a_broker_of_5_and_to_one_that_does_not_say() -> None:
    timed = Draft("t", b"x", "", "id", 0, is_timed=True)

    World(version=TIMERS_SINCE).send(Talk(taken), timed)
    World(version=None).send(Talk(taken), timed)


def test_a_batch_has_a_receipt_for_each_message() -> None:
    queue = QueueRef("t", "a", 0)
    whole = SendReceipt(SendStatus.OK, "i,j", "x,y", queue, QueueOffset(7))

    first, second = receipts_of_batch(whole)

    assert (first.message_id, first.offset_message_id, first.queue_offset) == ("i", "x", 7)
    assert (second.message_id, second.offset_message_id, second.queue_offset) == ("j", "y", 8)


def test_a_batch_that_is_one_record_has_one_place() -> None:
    queue = QueueRef("t", "a", 0)
    whole = SendReceipt(SendStatus.OK, "i,j", "x", queue, QueueOffset(7))

    assert [each.offset_message_id for each in receipts_of_batch(whole)] == ["x", "x"]


def test_a_key_has_one_queue_even_the_one_whose_hash_has_no_positive() -> None:
    queues = [QueueRef("t", "a", number) for number in range(8)]

    assert queue_of_key(queues, "TagA") == queues[2598919 % 8]
    assert queue_of_key(queues, "polygenelubricants") == queues[0]


def test_rules_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="retries"):
        SendRules(retries=-1)
    with pytest.raises(InvalidSetting, match="default_queue_count"):
        SendRules(default_queue_count=0)


def test_troubles_need_not_be_heard() -> None:
    world = World()
    publisher = Publisher("g", world.routes, clock=world.clock, chance=lambda: 0.0)

    receipt = Talk([GONE, stored()]).hold(publisher.send(DRAFT, world.queues, 3_000))

    assert receipt.queue.broker == "b"
