"""What tests of admin requests do again and again."""

from __future__ import annotations

from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.headers.topic import CreateTopic
from support.broker.heartbeats import consumer, heartbeat, wants
from support.broker.world import World


def done(
    world: World,
    code: RequestCode,
    header: Header | None = None,
    body: bytes = b"",
    *,
    language: str = "JAVA",
) -> bytes:
    """Ask for something that must go well; give the body of the answer."""
    answer = world.ask(code, header, body, language=language)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS, answer
    return answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)


def refused(
    world: World, code: RequestCode, header: Header | None = None, body: bytes = b""
) -> tuple[int, str | None]:
    """Ask for something that must not go well; give code and remark."""
    answer = world.ask(code, header, body)
    assert answer is not None
    assert answer.code != ResponseCode.SUCCESS, answer
    assert answer.body == b""
    return answer.code, answer.remark


def new_topic(
    name: str,
    queue_count: int = 2,
    *,
    read_queue_count: int | None = None,
    perm: int = 6,
    filter_type: str = "SINGLE_TAG",
    order: bool = False,
    attributes: str | None = None,
) -> CreateTopic:
    return CreateTopic(
        topic=name,
        default_topic="TBW102",
        read_queue_nums=queue_count if read_queue_count is None else read_queue_count,
        write_queue_nums=queue_count,
        perm=perm,
        topic_filter_type=filter_type,
        order=order,
        attributes=attributes,
    )


def make_topic(world: World, name: str, queue_count: int = 2, *, order: bool = False) -> None:
    done(world, RequestCode.UPDATE_AND_CREATE_TOPIC, new_topic(name, queue_count, order=order))


def submit_send(world: World, topic: str) -> int:
    """Hand a message over without ending the turn; give its opaque number."""
    header = SendMessageV2(
        producer_group="producers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=world.now_ms,
        flag=0,
        properties="",
    )
    return world.submit(RequestCode.SEND_MESSAGE_V2, header, b"hello")


def code_of(world: World, opaque: int) -> int:
    answer = world.answer_to(opaque)
    assert answer is not None
    return answer.code


def join(
    world: World,
    group: str,
    *topics: str,
    client_id: str = "c@1",
    port: int = 50_000,
    version: int = 479,
    language: str = "JAVA",
) -> Peer:
    """Let a consumer connect; its connection comes back."""
    peer = Peer(f"127.0.0.1:{port}")
    said = heartbeat(client_id, consumer(group, *map(wants, topics)))
    answer = world.ask(
        RequestCode.HEART_BEAT, None, said.to_body(), peer=peer, version=version, language=language
    )
    assert isinstance(answer, Answer)
    assert answer.code == ResponseCode.SUCCESS, answer
    return peer
