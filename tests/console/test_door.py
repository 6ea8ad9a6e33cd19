"""Nobody comes into the console without a session, and every answer tells browsers to be strict."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import pytest

from flintmq.console.guard.front_door import FORM_BYTES_MAX, HEADERS
from flintmq.console.guard.sessions import FAILURES_MAX, IDLE_MS, LIFE_MS, SESSIONS_MAX
from flintmq.console.pages.login_page import inside
from flintmq.console.showing.site import STREAMS_MAX
from flintmq.console.showing.templates import STATIC
from flintmq.embedded.broker import EmbeddedBroker
from support.console.browsing import TOKEN, Tags, Visitor, visiting
from support.net.support import HandClock


@pytest.fixture
def stranger(broker: EmbeddedBroker) -> Iterator[Visitor]:
    with visiting(broker.namesrv) as visitor:
        yield visitor


def test_without_a_session_every_page_leads_to_the_login(stranger: Visitor) -> None:
    page = stranger.client.get("/?a=1")
    stream = stranger.client.get("/?stream=1")
    change = stranger.client.post("/logout", data={})

    assert (page.status_code, page.headers["location"]) == (303, "/login?next=%2F%3Fa%3D1")
    assert (stream.status_code, change.status_code) == (401, 401)


def test_the_token_opens_a_session_whose_cookie_scripts_and_other_sites_cannot_use(
    stranger: Visitor,
) -> None:
    answer = stranger.client.post("/login", data={"token": TOKEN, "next": "/?a=1"})

    cookie = answer.headers["set-cookie"]
    assert (answer.status_code, answer.headers["location"]) == (303, "/?a=1")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Max-Age=43200" in cookie
    assert TOKEN not in cookie
    assert stranger.status("/") == 200


def test_a_wrong_token_opens_nothing_and_ten_of_them_close_the_door_for_a_minute(
    broker: EmbeddedBroker,
) -> None:
    clock = HandClock()
    with visiting(broker.namesrv, wall=clock) as visitor:
        wrong = [visitor.sign_in("no") for _ in range(FAILURES_MAX)]
        right = visitor.sign_in()
        clock.now_ms += 60_001
        later = visitor.sign_in()

    assert wrong == [403] * FAILURES_MAX
    assert (right, later) == (429, 303)


def test_a_token_in_the_address_counts_only_if_the_console_made_it(
    broker: EmbeddedBroker, stranger: Visitor
) -> None:
    chosen = stranger.client.get("/login", params={"token": TOKEN})
    with visiting(broker.namesrv, token=None) as visitor:
        made = visitor.client.get("/login", params={"token": visitor.site.token})
        wrong = visitor.client.get("/login", params={"token": "no"})

    assert "set-cookie" not in chosen.headers
    assert made.status_code == 303
    assert "set-cookie" in made.headers
    assert wrong.status_code == 403


@pytest.mark.parametrize(
    ("given", "leads_to"),
    [
        ("/topics?q=a", "/topics?q=a"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/a\nb", "/"),
        ("", "/"),
    ],
)
def test_a_login_never_leads_out_of_the_console(given: str, leads_to: str) -> None:
    assert inside(given) == leads_to


def test_a_session_ends_when_it_is_idle_when_the_day_is_over_and_when_one_signs_out(
    broker: EmbeddedBroker,
) -> None:
    clock = HandClock()
    with visiting(broker.namesrv, wall=clock) as visitor:
        visitor.sign_in()
        clock.now_ms += IDLE_MS
        idle = visitor.status("/")

        visitor.sign_in()
        for _ in range(LIFE_MS // (IDLE_MS - 1)):
            clock.now_ms += IDLE_MS - 1
            visitor.status("/")
        clock.now_ms += IDLE_MS - 1
        old = visitor.status("/")

        visitor.sign_in()
        without_token = visitor.client.post("/logout", data={"csrf": "guess"}).status_code
        still = visitor.status("/")
        visitor.client.post("/logout", data={"csrf": visitor.csrf()})
        out = visitor.status("/")

    assert (idle, old) == (303, 303)
    assert (without_token, still, out) == (403, 200, 303)


def test_there_is_room_for_a_number_of_sessions_and_the_idlest_makes_room(
    broker: EmbeddedBroker,
) -> None:
    with visiting(broker.namesrv) as visitor:
        for _ in range(SESSIONS_MAX + 3):
            visitor.client.cookies.clear()
            visitor.sign_in()
        newest = visitor.status("/")
        kept = len(visitor.site.sessions)

    assert (newest, kept) == (200, SESSIONS_MAX)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "[", "localhost.x"])
def test_another_host_name_is_refused_before_anything_is_looked_at(
    stranger: Visitor, host: str
) -> None:
    stranger.sign_in()

    assert stranger.client.get("/", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST", "[::1]:8088", "127.0.0.1"])
def test_the_names_of_loopback_are_answered_with_any_port(stranger: Visitor, host: str) -> None:
    assert stranger.client.get("/login", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://127.0.0.1:1"},
    ],
)
def test_a_form_from_another_page_is_refused(stranger: Visitor, headers: dict[str, str]) -> None:
    answer = stranger.client.post("/login", data={"token": TOKEN}, headers=headers)

    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_methods_and_sizes_have_limits(stranger: Visitor) -> None:
    stranger.sign_in()
    big = stranger.client.post("/login", data={"token": "x" * FORM_BYTES_MAX})
    no_form = stranger.client.post("/login", json={"token": TOKEN})

    assert stranger.client.request("DELETE", "/").status_code == 405
    assert big.status_code == 413
    assert no_form.status_code == 415


@pytest.mark.parametrize("path", ["/", "/login", "/nowhere", "/static/console.css", "/healthz"])
def test_every_answer_has_the_headers(stranger: Visitor, path: str) -> None:
    signed_out = stranger.client.get(path)
    stranger.sign_in()
    signed_in = stranger.client.get(path)
    refused = stranger.client.get(path, headers={"host": "evil.example"})

    for answer in (signed_out, signed_in, refused):
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "server" not in answer.headers


def test_pages_hold_no_script_no_style_and_no_address_of_others(stranger: Visitor) -> None:
    stranger.sign_in()
    for page in (stranger.text("/"), stranger.client.get("/login").text):
        tags = Tags.of(page)
        assert not [tag for tag in tags if tag.name == "style"]
        assert not [tag for tag in tags if tag.name == "script" and not tag.attributes.get("src")]
        for tag in tags:
            assert "style" not in tag.attributes
            assert not [name for name in tag.attributes if name.startswith("on")]
            for name in ("src", "href", "action"):
                assert (tag.attributes.get(name) or "/").startswith(("/", "#"))


def test_no_secret_is_in_a_page(broker: EmbeddedBroker) -> None:
    with visiting(broker.namesrv) as visitor:
        visitor.sign_in()
        page = visitor.text("/")
        (session,) = visitor.site.sessions._by_key.values()

    assert TOKEN not in page
    assert session.key not in page


def test_too_many_live_pages_are_refused(stranger: Visitor) -> None:
    stranger.sign_in()
    stranger.site.streams = STREAMS_MAX

    answer = stranger.client.get("/?stream=1")

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "30"


def test_scripts_of_others_are_those_that_were_published() -> None:
    folder = STATIC / "vendor"
    table = (folder / "README.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| (\S+) \|.*\| ([0-9a-f]{64}) \|$", table, re.MULTILINE))

    files = {each.name: each.read_bytes() for each in folder.iterdir() if each.name != "README.md"}

    assert {name: hashlib.sha256(body).hexdigest() for name, body in files.items()} == listed
