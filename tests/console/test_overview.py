"""The overview tells what is wrong first, and works with a cluster that is away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintmq import Message
from flintmq.console.pages.overview_page import GROWING, is_growing
from flintmq.console.watching.history import Sample
from flintmq.embedded.broker import EmbeddedBroker
from support.console.browsing import Tags, Visitor, visiting


@pytest.fixture
def visitor(broker: EmbeddedBroker) -> Iterator[Visitor]:
    with visiting(broker.namesrv, live_s=0.01) as made:
        made.sign_in()
        yield made


def test_it_shows_the_brokers_and_what_they_do(broker: EmbeddedBroker, visitor: Visitor) -> None:
    page = visitor.text("/")

    assert "<title>Overview · DefaultCluster · FlintMQ console</title>" in page
    assert "broker-a" in page
    assert "read-only" in page
    assert "does not answer" not in page


def test_it_is_made_for_keyboards_and_screen_readers(visitor: Visitor) -> None:
    page = visitor.text("/")

    assert len(Tags.of(page, "h1")) == 1
    assert Tags.of(page, "html")[0].attributes["lang"] == "en"
    assert Tags.of(page, "a")[0].attributes == {"class": "skip", "href": "#main"}
    assert {tag.attributes.get("scope") for tag in Tags.of(page, "th")} <= {"col", "row"}
    assert len(Tags.of(page, "caption")) == len(Tags.of(page, "table"))


def test_topics_and_groups_come_from_samples(broker: EmbeddedBroker, visitor: Visitor) -> None:
    visitor.sweep()
    with broker.producer("shop") as producer:
        for _ in range(5):
            producer.send(Message("overview-orders", b"x"))
    visitor.sweep()
    with broker.producer("shop") as producer:
        producer.send(Message("overview-orders", b"x"))
    visitor.sweep()

    page = visitor.text("/")

    assert '<a href="/topic?name=overview-orders">overview-orders</a>' in page
    assert "<svg" in page


def test_a_lag_is_a_warning_when_it_grew_all_the_time() -> None:
    up = [Sample(at, at) for at in range(GROWING)]

    assert is_growing(up)
    assert not is_growing(up[1:])
    assert not is_growing([*up[:-1], Sample(99, up[-2].value)])


def test_the_live_part_comes_again_and_again_as_events(visitor: Visitor) -> None:
    with visitor.client.stream("GET", "/?stream=1") as answer:
        lines = answer.iter_lines()
        seen = [next(lines) for _ in range(200)]

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert seen[0] == "retry: 5000"
    assert seen.count("event: part") >= 2
    assert not [line for line in seen if "<html" in line]


def test_a_cluster_that_does_not_answer_is_a_page_with_a_sentence() -> None:
    with visiting("127.0.0.1:1") as visitor:
        visitor.sign_in()
        answer = visitor.client.get("/")

    assert answer.status_code == 503
    assert "The cluster does not answer" in answer.text
    assert "127.0.0.1:1" in answer.text


def test_the_access_page_says_that_access_control_is_off(visitor: Visitor) -> None:
    page = visitor.text("/access")

    assert "Users are not shown: the brokers have none" in page
    assert "request type" not in page
