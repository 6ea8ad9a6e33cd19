"""Topics are found among many on the server, and a page tells all there is of one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from flintmq import Message
from flintmq.client.admin import Admin
from flintmq.console.showing.paging import ROWS
from flintmq.core.admin.topics import TopicKind, TopicName
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.group import dead_letter_topic
from support.console.browsing import Tags, Visitor, visiting


@pytest.fixture(scope="module")
def visitor(broker: EmbeddedBroker) -> Iterator[Visitor]:
    with Admin(namesrv=broker.namesrv) as admin:
        for number in range(ROWS + 5):
            admin.create_topic(f"many-{number:03d}", queues=1)
        admin.create_topic(dead_letter_topic("billing"), queues=1)
    with visiting(broker.namesrv) as made:
        made.sign_in()
        yield made


def names(page: str) -> list[str]:
    links = Tags.of(page, "a")
    return [tag.text for tag in links if (tag.attributes["href"] or "").startswith("/topic?")]


def test_a_page_has_fifty_rows_and_leads_to_the_next(visitor: Visitor) -> None:
    first = visitor.text("/topics", q="many-")
    second = visitor.text("/topics", q="many-", page=2)
    beyond = visitor.text("/topics", q="many-", page=99)

    assert names(first) == [f"many-{number:03d}" for number in range(ROWS)]
    assert names(second) == [f"many-{number:03d}" for number in range(ROWS, ROWS + 5)]
    assert names(beyond) == names(second)
    assert 'href="/topics?q=many-&amp;page=2" rel="next"' in first
    assert "1 to 50 of 55" in first


def test_the_search_ignores_case_and_says_when_nothing_fits(visitor: Visitor) -> None:
    assert names(visitor.text("/topics", q="MANY-007")) == ["many-007"]
    assert "No topic fits." in visitor.text("/topics", q="nothing of that kind")


def test_topics_of_other_kinds_are_shown_on_request(visitor: Visitor) -> None:
    dead = dead_letter_topic("billing")

    assert dead not in names(visitor.text("/topics"))
    assert names(visitor.text("/topics", kind="dead-letter")) == [dead]
    assert dead in names(visitor.text("/topics", kind="all", q="billing"))


def test_a_page_tells_queues_settings_and_groups(broker: EmbeddedBroker, visitor: Visitor) -> None:
    with broker.producer("shop") as producer:
        for number in range(3):
            producer.send(Message("many-001", b"%d" % number))

    page = visitor.until("<dt>Messages</dt><dd>3</dd>", "/topic", name="many-001")

    assert "broker-a" in page
    assert "No group has read it." in page


def test_an_unknown_topic_is_not_found_and_its_name_is_only_text(visitor: Visitor) -> None:
    answer = visitor.client.get("/topic", params={"name": "<script>alert(1)</script>"})

    assert answer.status_code in (400, 404)
    assert "<script>alert" not in answer.text


def test_ten_thousand_topics_cost_no_more_than_the_rows_that_are_shown(visitor: Visitor) -> None:
    """The name server's answer is given by hand; the fifty sizes are asked for real."""
    many = tuple(TopicName(f"t-{number:05d}", TopicKind.NORMAL) for number in range(10_000))

    async def ten_thousand() -> tuple[TopicName, ...]:
        return many

    asked: list[TopicName] = []
    cluster = visitor.site.cluster
    before = cluster.sizes

    async def counted(topics: object) -> object:
        asked.extend(topics)  # type: ignore[arg-type]  # what a page hands over
        return await before(topics)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "topics", ten_thousand)
        patch.setattr(cluster, "sizes", counted)
        start_s = time.monotonic()
        page = visitor.text("/topics", q="9", page=3)
        spent_s = time.monotonic() - start_s

    assert len(names(page)) == ROWS
    assert len(asked) == ROWS
    assert len(page) < 60_000
    assert spent_s < 30, "it takes some hundred milliseconds on a machine that is idle"
