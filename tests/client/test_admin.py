"""An admin sees and changes a real broker, from threads and from asyncio alike."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
from collections.abc import Iterator
from time import monotonic

import pytest

from flintmq.client import admin_aio
from flintmq.client.admin import Admin
from flintmq.client.admin_methods import AdminMethods, Method
from flintmq.client.producer.threaded_producer import Producer
from flintmq.core.admin.dead_letters import BuriedMessage, ReplayTo
from flintmq.core.admin.spans import END, START, ToOffset
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import BrokerRefused, InvalidSetting, NoRoute, Unreachable, WrongState
from flintmq.model.message import Message
from flintmq.model.queue import QueueOffset
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.group import SendBackHeader
from flintmq.protocol.signature import verify
from support.broker.heartbeats import consumer, heartbeat, wants


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=2) as running:
        yield running


@pytest.fixture
def admin(broker: EmbeddedBroker) -> Iterator[Admin]:
    with Admin(namesrv=broker.namesrv) as opened:
        yield opened


def fill(admin: Admin, topic: str, count: int) -> list[str]:
    """Two queues on each of two brokers, and messages in turn over them."""
    admin.create_topic(topic, queues=2)
    queues = admin.route(topic).publish_queues(topic)
    messages = [Message(topic, b"%d" % n, keys=[f"k-{n}"]) for n in range(count)]
    with Producer("shop", namesrv=";".join(admin.name_servers.addresses)) as producer:
        return [
            producer.send(message, queue=queues[at % len(queues)]).message_id
            for at, message in enumerate(messages)
        ]


def test_a_topic_lives_from_its_making_to_its_deletion(admin: Admin) -> None:
    admin.create_topic("made", queues=3)

    detail = admin.describe_topic("made")
    admin.update_topic("made", write_queues=1)
    changed = admin.describe_topic("made")
    admin.delete_topic("made")

    assert [(one.read_queues, one.write_queues) for one in detail.brokers] == [(3, 3)] * 2
    assert [(one.read_queues, one.write_queues) for one in changed.brokers] == [(3, 1)] * 2
    assert "made" not in {topic.name for topic in admin.topics()}
    with pytest.raises(NoRoute):
        admin.describe_topic("made")


def test_messages_are_found_in_every_way(admin: Admin) -> None:
    ids = fill(admin, "found", 6)

    (by_id,) = admin.messages_by_id("found", ids[3])
    (by_key,) = admin.messages_by_key("found", "k-3")
    by_place = admin.message_at(by_id.offset_message_id)
    by_time = admin.messages_by_time("found", by_id.store_ms, 2**62)
    spans = admin.locate_spans("found")
    read = sorted(message.body for located in spans for message in admin.read(located))

    assert by_id.body == b"3"
    assert by_id == by_key
    assert by_place is not None
    assert by_place.body == b"3"
    assert b"3" in {message.body for message in by_time}
    assert read == [b"%d" % n for n in range(6)]
    assert sum(stats.count for stats in admin.topic_stats("found")) == 6


def test_a_group_is_moved_and_its_lag_follows(admin: Admin) -> None:
    fill(admin, "moved", 8)
    admin.create_group("mover")

    admin.apply_reset(admin.plan_reset("mover", "moved", END))
    at_the_end = admin.lag("mover")
    plan = admin.plan_reset("mover", "moved", START)
    admin.apply_reset(plan)
    at_the_start = admin.lag("mover")
    admin.clone_offsets("mover", "follower")

    assert (at_the_end.lag, at_the_start.lag, len(at_the_start.queues)) == (0, 8, 4)
    assert sum(move.again for move in plan.moves) == 8
    assert set(admin.offsets("follower", "moved").values()) == {0}
    assert set(admin.offsets("nobody", "moved").values()) == {None}


def test_an_offset_beyond_a_queue_is_refused(admin: Admin) -> None:
    fill(admin, "short", 1)

    with pytest.raises(InvalidSetting, match="goes from"):
        admin.plan_reset("mover", "short", ToOffset(QueueOffset(10)))


def test_one_queue_can_be_asked_about(admin: Admin) -> None:
    fill(admin, "asked", 4)
    queue = admin.route("asked").subscribe_queues("asked")[0]

    extent = admin.extent(queue)
    first_ms = admin.earliest_ms(queue)

    assert (extent.start, extent.stop) == (0, 1)
    assert first_ms is not None
    assert admin.offset_at(queue, first_ms) == 0


def test_members_are_seen_while_they_are_online(admin: Admin, broker: EmbeddedBroker) -> None:
    body = heartbeat("c1", consumer("seen", wants("orders", "paid")), producers=("shop",)).to_body()
    with BlockingChannels() as channels:
        for address in broker.brokers:
            channels.call(address, request(RequestCode.HEART_BEAT, body=body), 5_000)

        online = admin.members("seen")
        producers = admin.producers("shop")
        with pytest.raises(InvalidSetting, match="members online"):
            admin.delete_group("seen")

    assert online is not None
    assert [(m.client_id, m.brokers) for m in online.members] == [("c1", ("broker-a", "broker-b"))]
    assert ("orders", "paid") in {(wish.topic, wish.expression) for wish in online.wishes}
    assert [member.client_id for member in producers] == ["c1"]
    assert admin.members("nobody") is None


def die(admin: Admin, topic: str, group: str) -> BuriedMessage:
    """Have a message sent back to the dead letters by a consumer."""
    admin.create_group(group)
    with Producer("shop", namesrv=";".join(admin.name_servers.addresses)) as producer:
        receipt = producer.send(Message(topic, b"hopeless", tags="paid"))
    message = admin.message_at(receipt.offset_message_id)
    assert message is not None
    header = SendBackHeader(offset=message.log_offset, group=group, delay_level=-1)
    address = admin.cluster().masters()[message.broker]
    with BlockingChannels() as channels:
        sent = request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        assert channels.call(address, sent, 5_000).code == 0
    deadline = monotonic() + 10
    while not (letters := admin.dead_letters(group)) and monotonic() < deadline:
        pass  # the name server has yet to hear of the topic
    return letters[0]


def test_a_dead_letter_is_listed_and_comes_back_to_its_group(admin: Admin) -> None:
    fill(admin, "deadly", 0)
    letter = die(admin, "deadly", "tired")
    admin.create_topic("%RETRY%tired", queues=1)

    stored = admin.replay("tired", letter)
    again = admin.message_at(stored.offset_message_id)
    everyone = admin.replay("tired", letter, to=ReplayTo.TOPIC)

    assert letter.origin_topic == "deadly"
    assert again is not None
    assert (again.topic, again.body, again.tags) == ("%RETRY%tired", b"hopeless", "paid")
    assert again.properties["RETRY_TOPIC"] == "deadly"
    assert everyone.queue.topic == "deadly"


def test_brokers_are_asked_and_changed_by_name(admin: Admin) -> None:
    admin.change_broker_settings("broker-b", {"traceOn": "false"})

    assert admin.broker_settings("broker-b")["traceOn"] == "false"
    assert admin.broker_settings("broker-a")["traceOn"] == "true"
    assert "putTps" in admin.broker_figures("broker-a")


def test_a_refusal_of_the_broker_is_typed(admin: Admin) -> None:
    with pytest.raises(BrokerRefused) as caught:
        admin.change_broker_settings("broker-a", {"storePathRootDir": "/elsewhere"})

    assert caught.value.address
    assert caught.value.remark


def test_the_second_name_server_stands_in_for_the_first(broker: EmbeddedBroker) -> None:
    with Admin(namesrv=f"127.0.0.1:1;{broker.namesrv}") as admin:
        assert len(admin.cluster().brokers) == 2
    with Admin(namesrv="127.0.0.1:1") as admin, pytest.raises(Unreachable):
        admin.cluster()


def test_nothing_is_asked_after_the_end(broker: EmbeddedBroker) -> None:
    admin = Admin(namesrv=broker.namesrv)
    admin.close()

    with pytest.raises(WrongState, match="closed"):
        admin.topics()


def test_a_namespace_is_part_of_a_name(broker: EmbeddedBroker) -> None:
    with pytest.raises(InvalidSetting, match="whole names"):
        Admin(namesrv=broker.namesrv, namespace="ns")


class Seen:
    """A hook that remembers what left."""

    def __init__(self) -> None:
        self.requests: list[Command] = []
        self.answers: list[Command | None] = []

    def before(self, _address: str, request: Command) -> Command:
        return request

    def after(self, _address: str, request: Command, answer: Command | None) -> None:
        self.requests.append(request)
        self.answers.append(answer)


def test_requests_are_signed_for_an_account(broker: EmbeddedBroker) -> None:
    seen = Seen()
    with Admin(
        namesrv=broker.namesrv, access_key="me", secret_key="mine", request_hooks=(seen,)
    ) as admin:
        admin.cluster()

    assert verify(seen.requests[0], "mine")
    assert seen.answers[0] is not None


def test_both_faces_have_the_same_methods() -> None:
    def methods(face: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(face, callable)
            if not name.startswith("_") and name != "make"
        }

    assert methods(Admin) == methods(admin_aio.Admin)
    assert len(methods(Admin)) >= 30


@pytest.mark.parametrize("face", [Admin, admin_aio.Admin], ids=["threads", "asyncio"])
def test_help_shows_what_is_called(face: type[AdminMethods]) -> None:
    table = {name: each for name, each in vars(AdminMethods).items() if isinstance(each, Method)}

    for name in table:
        method = getattr(face, name)
        shown = inspect.signature(method)
        assert method.__name__ == name
        assert method.__doc__
        assert next(iter(shown.parameters)) == "self"
        assert "namesrv" not in shown.parameters
        assert "Conversation" not in str(shown)
        assert shown.return_annotation
        assert inspect.iscoroutinefunction(method) == (face is admin_aio.Admin)
    text = pydoc.plain(pydoc.render_doc(face))
    assert " topics(self) -> 'tuple[TopicName, ...]'" in text
    assert "NameServers" not in text


def test_the_asyncio_face_asks_side_by_side(broker: EmbeddedBroker) -> None:
    seen = Seen()

    async def run() -> tuple[int, list[bytes], str]:
        from flintmq.aio import Producer

        async with admin_aio.Admin(
            namesrv=broker.namesrv, access_key="me", secret_key="mine", request_hooks=(seen,)
        ) as admin:
            await admin.create_topic("side", queues=1)
            async with Producer("shop", namesrv=broker.namesrv) as producer:
                for n in range(4):
                    await producer.send(Message("side", b"%d" % n))
            await asyncio.gather(*(admin.topic_stats("side") for _ in range(4)))
            found = [
                message.body
                for located in await admin.locate_spans("side")
                async for message in admin.read(located)
            ]
            plan = await admin.plan_reset("g", "side", START)
            await admin.create_group("g")
            await admin.apply_reset(plan)
            lag = await admin.lag("g")
            shown = repr(admin)
        with pytest.raises(WrongState):
            await admin.topics()
        return lag.lag, sorted(found), shown

    lag, found, shown = asyncio.run(run())

    assert lag == 4
    assert found == [b"0", b"1", b"2", b"3"]
    assert shown == f"<Admin of {broker.namesrv}>"
    assert verify(seen.requests[-1], "mine")


def test_the_asyncio_face_replays_dead_letters(admin: Admin, broker: EmbeddedBroker) -> None:
    fill(admin, "deadly2", 0)
    letter = die(admin, "deadly2", "tired2")

    async def run() -> str:
        async with admin_aio.Admin(namesrv=broker.namesrv) as opened:
            return (await opened.replay("tired2", letter, to=ReplayTo.TOPIC)).queue.topic

    assert asyncio.run(run()) == "deadly2"
