"""The console in a real browser: every page, live parts, a keyboard, both colour schemes.

`make test-browser` runs all of it; `make test` runs the first two tests where a browser is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, expect

from flintmq import Message
from flintmq.embedded.broker import EmbeddedBroker
from support.console.browsing import Tags, Visitor, visiting
from support.console.chromium import PATIENCE_MS, Window, chromium, needs_browser, window
from support.console.shop import BROKEN, shop

pytestmark = [needs_browser, pytest.mark.timeout(300)]

LOOK_MS = 2_000
"""How long one of several looks takes."""

HOSTILE = "<img src=x onerror=document.title='owned'>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def open_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedBroker, Visitor]]:
    audit = tmp_path_factory.mktemp("console") / "audit.log"
    with shop(live_s=0.2, audit=audit) as (broker, visitor):
        with broker.producer("web-shop") as producer:
            producer.send(Message("hostile", HOSTILE.encode(), tags=HOSTILE, keys="k"))
        visitor.sweep()
        yield broker, visitor


def paths(visitor: Visitor) -> list[str]:
    """Every page there is, with something to show."""
    first = [
        "/",
        "/topics",
        "/topics?kind=all",
        "/topic?name=orders",
        "/topic/messages?name=orders",
        "/topic/messages?name=hostile",
        "/topic/tail?name=orders",
        "/groups",
        "/group?name=billing",
        "/group?name=reports",
        "/group/reset?name=reports&topic=payments&to=start",
        "/dead-letters",
        "/dead-letters/group?name=billing",
        "/dead-letters/replay?name=billing",
        "/spark",
        "/access",
        "/history",
        "/topics/new",
        "/topic/delete?name=shipments",
    ]
    found = dict.fromkeys(first)
    for page, start in (
        ("/topic/messages?name=orders", "/message?"),
        ("/topic/messages?name=hostile", "/message?"),
        ("/group?name=billing", "/group/member?"),
        ("/dead-letters/group?name=billing", "/dead-letters/letter?"),
        ("/spark", "/spark/run?"),
    ):
        links = [tag.attributes.get("href") or "" for tag in Tags.of(visitor.text(page), "a")]
        found[next(link for link in links if link.startswith(start))] = None
    life = next(link for link in found if link.startswith("/message?"))
    links = [tag.attributes.get("href") or "" for tag in Tags.of(visitor.text(life), "a")]
    found[next(link for link in links if link.startswith("/message/trace?"))] = None
    return list(found)


def test_a_browser_signs_in_and_the_overview_updates_itself(
    browser: Browser, broker: EmbeddedBroker
) -> None:
    with (
        visiting(broker.namesrv, live_s=0.2) as visitor,
        window(browser, visitor.address) as seen,
    ):
        state = seen.page.locator(".live-state")
        # the bare word stands there only until the first update, 0.2 s later
        expect(state).to_contain_text("Live, ", timeout=PATIENCE_MS)
        errors = seen.errors

    assert errors == []


def test_who_finds_a_group_behind_resets_it_and_replays_dead_letters(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        shop(live_s=0.2, audit=tmp_path / "audit.log") as (broker, visitor),
        window(browser, visitor.address) as seen,
    ):
        visitor.sweep()
        page = seen.open("/")
        behind = page.get_by_role("link", name="reports", exact=True)
        expect(behind).to_be_visible(timeout=PATIENCE_MS)
        seen.open("/group?name=reports")
        expect(page.locator(".notice").first).to_contain_text(
            "no member is online", timeout=PATIENCE_MS
        )

        page.get_by_role("link", name="Reset offsets").click()
        page.fill("#topic", "payments")
        page.fill("#to", "end")
        page.get_by_role("button", name="Show what it would do").click()
        expect(page.locator(".notice")).to_contain_text("would be skipped", timeout=PATIENCE_MS)
        page.fill("#confirm", "reports")
        page.get_by_role("button", name="Reset the offsets").click()
        expect(page.locator(".notice").first).to_contain_text(
            "reports is not behind", timeout=PATIENCE_MS
        )

        seen.open("/dead-letters/group?name=billing")
        page.get_by_role("link", name="Replay", exact=True).click()
        page.fill("#confirm", "billing")
        page.get_by_role("button", name=f"Send {BROKEN} again").click()
        expect(page.get_by_label("Replay", exact=True)).to_contain_text(
            f"The replay is done. {BROKEN} of {BROKEN} sent", timeout=PATIENCE_MS
        )
        errors, lag = seen.errors, broker.lag("reports")

    assert errors == []
    assert lag == 0


@pytest.mark.heavy
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_shown_without_an_error_and_without_serious_findings(
    browser: Browser,
    open_shop: tuple[EmbeddedBroker, Visitor],
    scheme: Literal["light", "dark"],
) -> None:
    _, visitor = open_shop
    findings: list[str] = []
    with window(browser, visitor.address, scheme=scheme) as seen:
        for path in paths(visitor):
            page = seen.open(path)
            expect(page.locator("h1")).to_have_count(1)
            assert "owned" not in page.title()
            findings += seen.axe()
        errors = seen.errors

    assert errors == []
    assert findings == []


@pytest.mark.heavy
@pytest.mark.parametrize("with_accounts", [False, True])
def test_the_login_has_no_serious_findings(
    browser: Browser, broker: EmbeddedBroker, with_accounts: bool
) -> None:
    with (
        visiting(broker.namesrv, token=None, with_accounts=with_accounts) as visitor,
        browser.new_context() as context,
    ):
        seen = Window(context.new_page(), visitor.address)
        seen.open("/login")
        findings, errors = seen.axe(), seen.errors

    assert findings == []
    assert errors == []


@pytest.mark.heavy
def test_a_phone_scrolls_no_page_sideways(
    browser: Browser, open_shop: tuple[EmbeddedBroker, Visitor]
) -> None:
    _, visitor = open_shop
    wide = []
    with window(browser, visitor.address, width=320, height=640) as seen:
        for path in paths(visitor):
            page = seen.open(path)
            if page.evaluate("document.documentElement.scrollWidth") > 320:
                wide.append(path)

    assert wide == []


@pytest.mark.heavy
def test_everything_can_be_read_without_scripts(
    browser: Browser, open_shop: tuple[EmbeddedBroker, Visitor]
) -> None:
    _, visitor = open_shop
    with window(browser, visitor.address, scripts=False) as seen:
        page = seen.open("/group?name=reports")
        expect(page.locator(".notice").first).to_contain_text("no member is online")
        expect(page.locator(".pause")).to_be_hidden()
        page.get_by_role("link", name="Topics").click()
        page.fill("#q", "ord")
        page.get_by_role("button", name="Find").click()
        expect(page.locator("tbody tr")).to_have_count(1)


@pytest.mark.heavy
def test_a_keyboard_reaches_the_content_and_the_next_page(
    browser: Browser, open_shop: tuple[EmbeddedBroker, Visitor]
) -> None:
    _, visitor = open_shop
    with window(browser, visitor.address) as seen:
        page = seen.open("/topics")
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_text("Skip to the content")
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        page.keyboard.press("Tab")
        focused = []
        for _ in range(12):
            focused.append(page.locator(":focus").inner_text())
            if "orders" in focused:
                break
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_contain_text("orders")


@pytest.mark.heavy
def test_a_tail_shows_what_comes_until_it_is_paused(
    browser: Browser, open_shop: tuple[EmbeddedBroker, Visitor]
) -> None:
    broker, visitor = open_shop
    with (
        window(browser, visitor.address) as paused,
        window(browser, visitor.address) as live,
        broker.producer("web-shop") as producer,
    ):
        for each in (paused, live):
            each.open("/topic/tail?name=stock-levels")

        def send_until_seen(body: str, rows: Locator) -> None:
            """A stream opens some time after its page: what came before it is not shown."""
            for _ in range(PATIENCE_MS // LOOK_MS):
                producer.send(Message("stock-levels", body.encode()))
                try:
                    expect(rows.first).to_contain_text(body, timeout=LOOK_MS)
                except AssertionError:
                    continue
                return
            pytest.fail(f"{body} was never shown")

        rows = paused.page.locator("tbody tr")
        send_until_seen("first", rows)
        paused.page.get_by_role("button", name="Pause").click()
        expect(paused.page.locator(".live-state")).to_have_text("Paused")
        send_until_seen("second", live.page.locator("tbody tr"))
        expect(rows.first).to_contain_text("first")
        errors = paused.errors + live.errors

    assert errors == []


@pytest.mark.heavy
def test_an_offset_reset_is_previewed_typed_and_done(
    browser: Browser, open_shop: tuple[EmbeddedBroker, Visitor], tmp_path: Path
) -> None:
    broker, visitor = open_shop
    with window(browser, visitor.address) as seen:
        page = seen.open("/group/reset?name=reports")
        page.fill("#topic", "payments")
        page.fill("#to", "end")
        page.get_by_role("button", name="Show what it would do").click()
        expect(page.locator(".notice")).to_contain_text("messages would be skipped")
        page.fill("#confirm", "wrong")
        page.get_by_role("button", name="Reset the offsets").click()
        expect(page.get_by_role("alert")).to_have_text("Type the name exactly to confirm.")
        page.fill("#confirm", "reports")
        page.get_by_role("button", name="Reset the offsets").click()
        expect(page.locator(".notice").first).to_contain_text("reports is not behind")

    assert broker.lag("reports") == 0
