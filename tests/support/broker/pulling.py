"""What tests of pulls need: a topic with messages, a group that says what it wants, a pull."""

from __future__ import annotations

from typing import Any

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.model.group import MessageModel
from flintmq.protocol.bodies.client import ConsumerGroup, Heartbeat, Subscription
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.pull import PullFlag, PullMessage
from flintmq.protocol.records.record import decode_record
from support.broker.world import SMALL_STORE, World

TOPIC = "orders"
GROUP = "readers"

COMMIT, SUSPEND, SUBSCRIPTION, CLASS_FILTER = (
    int(PullFlag.COMMIT_OFFSET),
    int(PullFlag.SUSPEND),
    int(PullFlag.SUBSCRIPTION),
    int(PullFlag.CLASS_FILTER),
)


def broker_config(**changes: Any) -> BrokerConfig:
    return BrokerConfig(**{"store": SMALL_STORE, **changes})


def pull_header(**changes: Any) -> PullMessage:
    fields: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": TOPIC,
        "queue_id": 0,
        "queue_offset": 0,
        "max_msg_nums": 32,
        "sys_flag": SUBSCRIPTION,
    }
    return PullMessage(**fields | changes)


def pull(
    world: World,
    code: RequestCode = RequestCode.PULL_MESSAGE,
    *,
    peer: Peer | None = None,
    **changes: Any,
) -> Answer | None:
    return world.ask(code, pull_header(**changes), peer=peer)


def submit_pull(world: World, *, peer: Peer | None = None, **changes: Any) -> int:
    return world.submit(RequestCode.PULL_MESSAGE, pull_header(**changes), peer=peer)


def add_topic(world: World, topic: str = TOPIC, queue_count: int = 2, **more: Any) -> None:
    world.state.topics.ensure(topic, queue_count, world.now_ms, **more)


def store(
    world: World,
    *bodies: bytes,
    topic: str = TOPIC,
    queue_id: int = 0,
    settle: bool = True,
    **properties: str,
) -> None:
    """Store messages in one turn."""
    for body in bodies:
        message = NewMessage(
            topic=topic,
            queue_id=queue_id,
            body=body,
            properties=dict(properties),
            born_ms=world.now_ms,
            born_host=world.peer.host,
            store_host=world.state.host,
        )
        append(world.state, message, world.now_ms)
    if settle:
        world.settle()


def subscription(text: str = "*", version: int = 1, *, topic: str = TOPIC, **more: Any) -> Any:
    return Subscription(topic=topic, sub_string=text, sub_version=version, **more)


def beat(
    world: World,
    *subscriptions: Subscription,
    group: str = GROUP,
    model: MessageModel = MessageModel.CLUSTERING,
    peer: Peer | None = None,
) -> None:
    """Let the group say with a heartbeat what it wants."""
    heartbeat = Heartbeat(
        client_id="127.0.0.1@1",
        consumer_data_set=(
            ConsumerGroup(
                group_name=group, message_model=model, subscription_data_set=subscriptions
            ),
        ),
    )
    answer = world.ask(RequestCode.HEART_BEAT, None, heartbeat.to_body(), peer=peer)
    assert answer is not None
    assert answer.code == 0, answer


def bodies_of(answer: Answer | None) -> list[bytes]:
    """The bodies of the records in an answer."""
    assert answer is not None
    octets = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    bodies = []
    position = 0
    while position < len(octets):
        record = decode_record(octets, position)
        bodies.append(bytes(record.body))
        position += int.from_bytes(octets[position : position + 4])
    return bodies
