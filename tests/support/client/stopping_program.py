"""A program that consumes until it is told to stop, as a user writes it.

    python stopping_program.py NAMESRV GROUP TOPIC threads|asyncio|ordered LISTENER_MS

It prints each body when its listener is done, and what was left at the end.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time

from flintmq import App

_, namesrv, group, topic, kind, listener_ms = sys.argv

app = App(group, namesrv=namesrv, start_from="first", ordered=kind == "ordered")


lock = threading.Lock()


def say(text: str) -> None:
    with lock:  # or lines of several threads run together
        print(text, flush=True)


if kind == "asyncio":

    @app.listener(topic)
    async def listen_async(messages):  # type: ignore[no-untyped-def]
        await asyncio.sleep(int(listener_ms) / 1000)
        say(f"done {messages[0].body.decode()}")

    left = asyncio.run(app.run_async(on_ready=lambda _: say("ready")))
else:

    @app.listener(topic)
    def listen(messages):  # type: ignore[no-untyped-def]
        time.sleep(int(listener_ms) / 1000)
        say(f"done {messages[0].body.decode()}")

    left = app.run(on_ready=lambda _: say("ready"))

say(f"left {len(left)}")
sys.exit(1 if left else 0)
