"""A console that listens, and a visitor who asks it over a real connection."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any, TypeVar

import httpx

from flintmq.client.engine.loop_thread import LoopThread
from flintmq.console.app import ConsoleSettings
from flintmq.console.serving import RunningConsole, serving
from flintmq.console.showing.site import Site
from flintmq.net.clock import wall_ms
from support.net.support import HERE

T = TypeVar("T")

TOKEN = "a-token-of-the-tests"
PATIENCE_S = 60.0
LOOK_S = 0.05


class Visitor:
    """Somebody who looks at pages; ``site`` is what the console keeps."""

    def __init__(self, client: httpx.Client, console: RunningConsole, thread: LoopThread) -> None:
        self.client = client
        self.address = console.address
        self._site = console.site
        self._thread = thread

    @property
    def site(self) -> Site:
        """Of the console's own thread: look, and change nothing that it uses meanwhile."""
        return self._site

    def sign_in(self, token: str = TOKEN) -> int:
        return self.client.post("/login", data={"token": token, "next": "/"}).status_code

    def open(self, path: str, **query: object) -> httpx.Response:
        fields = {name: str(each) for name, each in query.items()}
        return self.client.get(path, params=fields or None)

    def text(self, path: str, **query: object) -> str:
        """A page that must be there."""
        answer = self.open(path, **query)
        assert answer.status_code == 200, answer.text
        return answer.text

    def until(self, text: str, path: str, **query: object) -> str:
        """The page once it has a text: what the console knows is up to two seconds old."""
        deadline_s = time.monotonic() + PATIENCE_S
        while text not in (page := self.text(path, **query)):
            assert time.monotonic() < deadline_s, f"{text!r} does not come in {page}"
            time.sleep(LOOK_S)
        return page

    def status(self, path: str, **query: object) -> int:
        return self.open(path, **query).status_code

    def csrf(self) -> str:
        """The token that forms of this session carry."""
        inputs = Tags.of(self.text("/"), "input")
        (token,) = {
            each.attributes["value"] for each in inputs if each.attributes["name"] == "csrf"
        }
        assert token is not None
        return token

    def send(self, path: str, **fields: object) -> httpx.Response:
        """A form of this session, with its CSRF token."""
        data = {name: str(each) for name, each in fields.items()}
        return self.client.post(path, data={"csrf": self.csrf(), **data})

    def sweep(self) -> None:
        """Take a sample now."""
        self._thread.run(self._sweep())

    async def _sweep(self) -> None:
        self._site.cluster.forget()
        await self._site.history.sweep()

    def on_its_thread(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(work)


@contextmanager
def visiting(
    namesrv: str,
    *,
    wall: Callable[[], int] = wall_ms,
    token: str | None = TOKEN,
    account: Mapping[str, Any] | None = None,
    trusted: ssl.SSLContext | None = None,
    **more: Any,
) -> Iterator[Visitor]:
    """A console that runs, and a visitor who is not signed in."""
    client: Any = {"namesrv": namesrv, **(account or {})}
    settings = ConsoleSettings(client=client, token=token, wall=wall, **more)
    thread = LoopThread("console-of-a-test")
    try:
        running = serving(settings, HERE)
        console = thread.run(running.__aenter__())
        try:
            with httpx.Client(
                base_url=console.address, timeout=PATIENCE_S, verify=trusted or True
            ) as client:
                yield Visitor(client, console, thread)
        finally:
            thread.run(running.__aexit__(None, None, None))
    finally:
        thread.end()


class Tag:
    """One tag with its attributes, and the text right behind it."""

    def __init__(self, name: str, attributes: dict[str, str | None]) -> None:
        self.name, self.attributes, self.text = name, attributes, ""


class Tags(HTMLParser):
    """The tags of a page, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Tag] = []

    @classmethod
    def of(cls, page: str, *names: str) -> list[Tag]:
        parser = cls()
        parser.feed(page)
        return [each for each in parser.found if not names or each.name in names]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(Tag(tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found:
            self.found[-1].text += data
