"""Java's own trace query reads what our clients leave, on our broker and on the real ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

from flintmq import Message, Producer, PushConsumer, Retry, TransactionProducer, TransactionState
from support.client.push_support import Ear
from support.client.support import nothing_left, wait_for
from support.interop.javaclient import NEW, OLD, MqAdmin
from support.interop.ours import Kind, serving

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(300),  # the first test starts servers and JVMs
]

SEND_MS = 15_000


class Place(NamedTuple):
    """A broker, and a release of the tools that knows how to ask it."""

    namesrv: str
    mqadmin: MqAdmin
    is_ordered_known: bool
    """Tools of 4.9 fail on ordered messages, which clients trace as such beside newer brokers."""


@pytest.fixture(
    scope="module",
    params=[(Kind.OURS, OLD), (Kind.OURS, NEW), (Kind.REAL_4_9, OLD), (Kind.REAL_5_3, NEW)],
    ids=lambda pair: f"{pair[0]}-tools-{pair[1]}",
)
def place(
    request: pytest.FixtureRequest, java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    kind, version = request.param
    with (
        serving(tmp_path_factory.mktemp("traced"), kind=kind, traceTopicEnable="true") as served,
        MqAdmin(version, served.namesrv, tmp_path_factory.mktemp("mqadmin")) as mqadmin,
    ):
        yield Place(served.namesrv, mqadmin, version == NEW or kind is Kind.REAL_4_9)


def traces(place: Place, message_id: str, *more: str) -> list[tuple[str, str, str]]:
    """Kind, group and status of every line that the query prints."""
    lines = place.mqadmin("queryMsgTraceById", "-i", message_id, *more).splitlines()
    split = [line.split() for line in lines if line.startswith(("Pub", "Sub"))]
    return [(words[0], words[1], words[-1]) for words in split]


def test_a_message_that_was_sent_and_consumed_is_found(place: Place) -> None:
    ear = Ear(Retry(delay_level=1))
    with nothing_left():
        with Producer("shop", namesrv=place.namesrv, trace=True) as producer:
            sent = producer.send(Message("traced", b"x", keys="k"), timeout_ms=SEND_MS)
        consumer = PushConsumer(
            "traced-readers", ear, namesrv=place.namesrv, trace=True, start_from="first"
        ).subscribe("traced")
        with consumer:
            wait_for(lambda: len(ear.messages) == 2, patience_s=60)

    wait_for(lambda: len(traces(place, sent.message_id)) == 3, patience_s=30)
    pub, *subs = traces(place, sent.message_id)
    assert pub == ("Pub", "shop", "success")
    assert sorted(subs) == [
        ("Sub", "traced-readers", "failed"),
        ("Sub", "traced-readers", "success"),
    ]


def test_every_kind_of_message_can_be_asked_for(place: Place) -> None:
    key = "k" if place.is_ordered_known else None
    with TransactionProducer(
        "kinds", lambda _: None, namesrv=place.namesrv, trace=True
    ) as producer:
        ids = [
            producer.send(Message("kinds", b"x"), sharding_key=key, timeout_ms=SEND_MS).message_id,
            producer.send(Message("kinds", b"x", delay_level=1), timeout_ms=SEND_MS).message_id,
            *(
                each.message_id
                for each in producer.send_batch(
                    [Message("kinds", b"x", keys="k"), Message("kinds", b"y")], timeout_ms=SEND_MS
                )
            ),
            producer.send_in_transaction(
                Message("kinds", b"x"), lambda *_: TransactionState.COMMIT, timeout_ms=SEND_MS
            ).receipt.message_id,
        ]

    for message_id in ids:
        wait_for(partial(traces, place, message_id), patience_s=30)
        assert traces(place, message_id) == [("Pub", "kinds", "success")]


def test_a_topic_of_ones_own_can_be_asked_too(place: Place) -> None:
    with Producer("shop", namesrv=place.namesrv, trace_topic="own-traces") as producer:
        sent = producer.send(Message("traced", b"x"), timeout_ms=SEND_MS)

    found = partial(traces, place, sent.message_id, "-t", "own-traces")
    wait_for(found, patience_s=30)
    assert found() == [("Pub", "shop", "success")]
