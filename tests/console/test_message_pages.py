"""Messages are found and shown whole, and nothing in them is more than text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from flintmq import Message
from flintmq.console.pages.live_tail import ROWS_A_TICK, WAITING_MAX, TailBuffer
from flintmq.console.showing.bodies import SHOWN_MAX, show_body
from flintmq.console.watching.message_scan import ROWS_MAX, MessageRow
from flintmq.embedded.broker import EmbeddedBroker
from support.console.browsing import PATIENCE_S, Tags, Visitor, visiting

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def visitor(broker: EmbeddedBroker) -> Iterator[Visitor]:
    with broker.producer("shop") as producer:
        for number in range(120):
            tag = "paid" if number % 3 == 0 else "open"
            body = b'{"order": %d}' % number
            producer.send(
                Message(
                    "orders", body, tags=tag, keys=f"o-{number}", properties={"price": str(number)}
                )
            )
        producer.send(
            Message("hostile", HOSTILE.encode(), tags=HOSTILE, keys=HOSTILE.replace(" ", "_"))
        )
        producer.send(Message("hostile", b"\xff\xfe\x00binary"))
    broker.wait_for(lambda: len(broker.messages("orders")) == 120, PATIENCE_S)
    with visiting(broker.namesrv) as made:
        made.sign_in()
        yield made


def links(page: str, start: str = "/message?") -> list[str]:
    found = [tag.attributes.get("href") or "" for tag in Tags.of(page, "a")]
    return [href for href in found if href.startswith(start)]


def test_the_newest_come_first_and_a_table_has_fifty(visitor: Visitor) -> None:
    page = visitor.text("/topic/messages", name="orders")

    assert len(links(page)) == ROWS_MAX
    assert page.index("o-119") < page.index("o-100")
    assert "120 messages were read" in page or "of 120 messages were read" in page


def test_a_scan_from_a_place_goes_on_from_where_it_ended(visitor: Visitor) -> None:
    queue = "broker-a/0"
    seen: list[str] = []
    page = visitor.text("/topic/messages", name="orders", queue=queue, **{"from": "start"})
    while True:
        seen += links(page)
        (later,) = links(page, "/topic/messages?")[1:] or [""]
        if not later:
            break
        page = visitor.client.get(later).text

    assert len(seen) == len(set(seen))
    assert len(seen) == len([link for link in seen if "queue=0" in link])


def test_tags_sql_and_text_filter_at_the_broker_and_here(visitor: Visitor) -> None:
    by_tag = visitor.text("/topic/messages", name="orders", tag="paid")
    by_sql = visitor.text("/topic/messages", name="orders", sql="price > 115")
    by_text = visitor.text("/topic/messages", name="orders", text='"order": 77}')

    assert len(links(by_tag)) == 40
    assert len(links(by_sql)) == 4
    assert len(links(by_text)) == 1
    assert "o-77" in by_text


def test_a_key_and_an_id_are_looked_up_in_the_index(
    broker: EmbeddedBroker, visitor: Visitor
) -> None:
    wanted = next(each for each in broker.messages("orders") if "o-7" in each.keys)

    by_key = visitor.text("/topic/messages", name="orders", key="o-7")
    by_id = visitor.text("/topic/messages", name="orders", id=wanted.message_id)
    by_offset_id = visitor.text("/topic/messages", name="orders", id=wanted.offset_message_id)

    assert links(by_key) == links(by_id) == links(by_offset_id)
    assert len(links(by_key)) == 1


@pytest.mark.parametrize(
    "query",
    [{"sql": "price >"}, {"from": "tomorrow"}, {"queue": "x"}, {"sql": "a = 1", "tag": "b"}],
)
def test_what_cannot_be_asked_is_a_sentence(visitor: Visitor, query: dict[str, str]) -> None:
    answer = visitor.client.get("/topic/messages", params={"name": "orders", **query})

    assert answer.status_code == 400
    assert "That cannot be asked" in answer.text


def test_a_message_has_its_fields_and_its_body_in_three_ways(visitor: Visitor) -> None:
    (at,) = links(visitor.text("/topic/messages", name="orders", key="o-7"))
    as_json = visitor.client.get(at).text
    as_hex = visitor.client.get(at + "&as=hex").text
    (body,) = links(as_json, "/message/body?")
    raw = visitor.client.get(body)

    assert "&#34;order&#34;: 7" in as_json
    assert "7b 22 6f 72 64 65 72" in as_hex
    assert raw.content == b'{"order": 7}'
    assert raw.headers["content-type"] == "application/octet-stream"
    assert raw.headers["content-disposition"].startswith("attachment")


def test_a_message_that_is_not_there_is_not_found(visitor: Visitor) -> None:
    place = {"topic": "orders", "broker": "broker-a", "queue": 0}

    assert visitor.status("/message", **place, offset=999_999) == 404
    assert visitor.status("/message", topic="nowhere", broker="b", queue=0, offset=0) == 404


def test_hostile_tags_keys_and_bodies_are_only_text(visitor: Visitor) -> None:
    page = visitor.text("/topic/messages", name="hostile", **{"from": "start"})
    pages = [page, *(visitor.client.get(at).text for at in links(page))]
    pages.append(visitor.text("/topic/tail", name="hostile"))
    pages.append(visitor.text("/topic/messages", name="hostile", text=HOSTILE))

    for each in pages:
        tags = Tags.of(each)
        assert not [tag for tag in tags if tag.name == "script" and "src" not in tag.attributes]
        assert not [tag for tag in tags if tag.name == "img"]
        assert not [tag for tag in tags for name in tag.attributes if name.startswith("on")]
    assert any("alert(1)" in each for each in pages)


def test_a_body_that_is_no_text_is_shown_as_hex() -> None:
    assert show_body(b"\xff\xfe\x00").way == "hex"
    assert show_body(b"\xff\xfe\x00").ways == ("hex",)
    assert show_body("größe".encode()).way == "text"
    assert show_body(b"[1, 2]").way == "json"
    assert show_body(b"{broken", "json").way == "text"
    assert show_body(b'{"a": 1.50, "a": 1e400}').text == '{\n  "a": 1.50,\n  "a": 1e400\n}'
    assert show_body(b"[" * 100_000).is_cut
    assert show_body(b"").ways == ("text", "hex")


def test_only_the_beginning_of_a_large_body_is_shown_and_it_is_said() -> None:
    shown = show_body("ä".encode() * SHOWN_MAX)

    assert shown.is_cut
    assert shown.way == "text"
    assert set(shown.text) == {"ä"}
    assert len(shown.text.encode()) <= SHOWN_MAX


def test_controls_in_a_body_are_written_out() -> None:
    assert show_body(b"a\x1b[31mb\nc").text == "a\\x1b[31mb\nc"


def test_without_bodies_no_page_has_one(broker: EmbeddedBroker, visitor: Visitor) -> None:
    with visiting(broker.namesrv, shows_bodies=False) as careful:
        careful.sign_in()
        table = careful.text("/topic/messages", name="orders", text="order")
        (at,) = links(careful.text("/topic/messages", name="orders", key="o-7"))
        message = careful.client.get(at).text
        raw = careful.client.get(at.replace("/message?", "/message/body?"))

    assert len(links(table)) == ROWS_MAX
    assert "order&#34;" not in table + message
    assert "shows no bodies" in message
    assert raw.status_code == 403


def test_the_life_of_a_message_is_a_timeline(broker: EmbeddedBroker, visitor: Visitor) -> None:
    wanted = next(each for each in broker.messages("orders") if "o-7" in each.keys)

    page = visitor.text("/message/trace", id=wanted.message_id, topic="orders")

    assert "<strong>stored</strong>" in page
    assert "Clients wrote no trace of it" in page
    assert visitor.status("/message/trace", id="unknown", topic="orders") == 404


def test_a_tail_brings_what_comes(broker: EmbeddedBroker, visitor: Visitor) -> None:
    with (
        broker.producer("shop") as producer,
        visitor.client.stream("GET", "/topic/tail?name=hostile&stream=1") as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines) == "retry: 5000"
        producer.send(Message("hostile", b"fresh-one", keys="k<b>"))
        row = next(line for line in lines if "fresh-one" in line)

    assert row.startswith("data: <tr>")
    assert "k&lt;b&gt;" in row


def test_a_tail_that_is_too_fast_drops_rows_and_says_how_many() -> None:
    buffer = TailBuffer()
    for number in range(10_000):
        buffer.add(MessageRow("t", "b", 0, number, 1, "", None, "", 1, ""))
        assert len(buffer._rows) <= WAITING_MAX

    rows, left_out = buffer.next_rows()

    assert [row.offset for row in rows] == list(range(9_999, 9_999 - ROWS_A_TICK, -1))
    assert left_out == 10_000 - ROWS_A_TICK
    assert buffer.next_rows() == ([], 0)


def test_pages_stay_small(visitor: Visitor) -> None:
    scripts = ("vendor/htmx.min.js", "vendor/htmx-ext-sse.min.js", "console.js", "console.css")
    shared = sum(len(visitor.client.get(f"/static/{name}").content) for name in scripts)

    for path in ("/", "/topics", "/groups", "/topic/messages?name=orders", "/topic?name=orders"):
        page = visitor.client.get(path)
        assert re.search("<h1>", page.text)
        assert shared + len(page.content) < 150_000, path
