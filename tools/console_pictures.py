"""Pictures of the console for its page in the docs, light and dark.

    PYTHONPATH=tests .venv/bin/python tools/console_pictures.py

writes ``docs/assets/console``.  It needs a browser, as `make test-browser` does.  The shop of the
tests is shown, with samples of an hour that were taken in a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from PIL import Image

from flintmq.net.clock import wall_ms
from support.console.chromium import CHROMIUM, Window, chromium, window
from support.console.shop import send_orders, shop

DIRECTORY: Final = Path(__file__).parents[1] / "docs" / "assets" / "console"
WIDTH, HEIGHT = 1200, 780
COLOURS: Final = 96
"""Enough for text and a few lines; a picture then has some 30 kB."""

SAMPLES: Final = 60
STEP_MS: Final = 55_000
"""Less than the gap at which a chart breaks its line."""

PAGES: Final = {
    "overview": "/",
    "topic": "/topic?name=orders",
    "group": "/group?name=reports",
    "messages": "/topic/messages?name=orders&tag=paid",
    "message": "",
    "trace": "",
    "dead-letters": "/dead-letters/group?name=billing",
    "spark": "",
    "reset": "/group/reset?name=reports&topic=payments&to=start",
}


class PastClock:
    """A wall clock that starts an hour ago and is moved by hand."""

    def __init__(self) -> None:
        self.behind_ms = SAMPLES * STEP_MS

    def __call__(self) -> int:
        return wall_ms() - self.behind_ms


def take(seen: Window, name: str, path: str, scheme: str) -> None:
    seen.open(path)
    file = DIRECTORY / f"{name}-{scheme}.png"
    seen.page.screenshot(path=file)
    with Image.open(file) as picture:
        picture.convert("RGB").quantize(COLOURS).save(file, optimize=True)


def main() -> None:
    if CHROMIUM is None:
        sys.exit("no browser is installed")
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    clock = PastClock()
    with shop(wall=clock) as (broker, visitor), chromium() as browser:
        for number in range(SAMPLES):
            send_orders(broker, 4 + (number * 7) % 23, first=1_000 + 100 * number)
            visitor.sweep()
            clock.behind_ms -= STEP_MS
        visitor.sign_in()
        for scheme in ("light", "dark"):
            with window(
                browser, visitor.address, scheme=scheme, width=WIDTH, height=HEIGHT
            ) as seen:
                for name, path in PAGES.items():
                    if name == "message":
                        seen.open("/topic/messages?name=orders&key=o-1")
                        path = seen.page.locator("tbody th a").first.get_attribute("href") or ""
                        message = path
                    elif name == "trace":
                        seen.open(message)
                        life = seen.page.get_by_role("link", name="its life")
                        path = life.get_attribute("href") or ""
                    elif name == "spark":
                        seen.open("/spark")
                        path = seen.page.locator("tbody th a").first.get_attribute("href") or ""
                    take(seen, name, path, scheme)


if __name__ == "__main__":
    main()
