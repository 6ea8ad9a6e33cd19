"""A real browser, where the machine has one: Chromium as Debian and others install it.

`needs_browser` skips a test where none is found, and says so.  Playwright's own browsers are not
fetched.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from support.console.browsing import TOKEN

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
PATIENCE_MS = 60_000

FLAGS = (
    "--no-sandbox",  # a container has no user namespaces, and root may not use them
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason=f"no browser is installed: {', '.join(NAMES)}"
)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        try:
            yield browser
        finally:
            browser.close()


class Window:
    """A page of a browser that is signed in; ``errors`` is what its console complained of."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.errors: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{self.page.url}: {message.text}")

    def open(self, path: str) -> Page:
        answer = self.page.goto(self.address + path)
        assert answer is not None
        assert answer.status == 200, path
        return self.page

    def sign_in(self) -> None:
        page = self.open("/login")
        page.fill("#token", TOKEN)
        page.press("#token", "Enter")
        page.wait_for_url(self.address + "/")

    def axe(self) -> list[str]:
        """Findings of axe-core on this page that are serious or worse."""
        source = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
        self.page.evaluate(source)
        found: dict[str, Any] = self.page.evaluate("axe.run(document)")
        assert found["passes"], "axe looked at nothing"
        return [
            f"{self.page.url}: {each['id']} at {node['target']}: {node['failureSummary']}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]


@contextmanager
def window(
    browser: Browser,
    address: str,
    *,
    scheme: Literal["light", "dark"] = "light",
    width: int = 1200,
    height: int = 800,
    scripts: bool = True,
) -> Iterator[Window]:
    """A window of its own, signed in; nothing is shared with another."""
    context = browser.new_context(
        color_scheme=scheme,
        viewport={"width": width, "height": height},
        java_script_enabled=scripts,
        timezone_id="UTC",
    )
    try:
        made = Window(context.new_page(), address)
        made.sign_in()
        yield made
    finally:
        context.close()
