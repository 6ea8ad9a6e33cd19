"""Programs and commands of ours work with our broker and with the real ones of both releases."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from flintmq import App, Message, PushConsumer, ReceivedMessage, aio
from support.cli.asking import Shell
from support.cli.serving import COMMAND, environment
from support.client.push_support import Ear
from support.client.support import nothing_left, run
from support.interop.filled import (
    SEND_MS,
    filled,
    new_topic,
    numbered,
    patiently,
    send_to,
    stands_at,
)
from support.interop.ours import Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers
]

CALL_MS = 15_000

APP = """
import os
from flintmq import App

app = App("{group}", start_from="first", call_timeout_ms=15_000)

@app.listener("{topic}", tags="wanted", batch_max=4)
def listen(messages):
    for message in messages:
        os.write(1, message.body + b"\\n")
"""


def test_the_commands_tell_of_topics_messages_and_groups(each: Served) -> None:
    user = Shell(each.namesrv)
    user.told("topic", "create", "commanded", "--queues", "2")
    patiently(lambda: {"topic": "commanded", "kind": "normal"} in user.facts("topic", "list"))
    sent = user.lines("send", "commanded", "-", "--lines", "--tag", "a", input="one\ntwo\nthree\n")
    patiently(lambda: user.facts("topic", "stats", "commanded")["messages"] == 3)
    told = user.lines("tail", "commanded", "--from", "start", "--no-follow")
    ear = Ear()
    with PushConsumer("commanders", ear, namesrv=each.namesrv, start_from="first").subscribe(
        "commanded"
    ):
        patiently(lambda: len(ear.messages) == 3)
    lag = user.facts("group", "lag", "commanders")

    assert sorted(message["body"] for message in told) == ["one", "three", "two"]
    assert {receipt["message_id"] for receipt in sent} == {m.message_id for m in ear.messages}
    assert lag["lag"] == 0
    assert sum(q["consumer_offset"] for q in lag["queues"] if q["topic"] == "commanded") == 3


def test_tail_shows_what_comes(each: Served) -> None:
    queues = new_topic(each, "tailed", 2)
    command = [
        str(COMMAND),
        "tail",
        "tailed",
        "--from",
        "start",
        "--count",
        "4",
        "--output",
        "json",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment(NAMESRV_ADDR=each.namesrv)
    ) as process:
        send_to(each, [Message("tailed", body) for body in numbered(4)], queues)
        printed, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    assert sorted(json.loads(line)["body"] for line in printed.splitlines()) == [
        body.decode() for body in numbered(4)
    ]


def test_run_consumes_until_it_is_told_to_end(each: Served, tmp_path: Path) -> None:
    queues = new_topic(each, "run-by", 2)
    (tmp_path / "shop.py").write_text(APP.format(group="runners", topic="run-by"))
    wanted = [Message("run-by", body, tags="wanted") for body in numbered(10)]
    send_to(each, [*wanted, Message("run-by", b"9999", tags="other")], queues)
    with subprocess.Popen(
        [COMMAND, "run", "shop:app", "--namesrv", each.namesrv],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        printed: list[bytes] = []
        while len(printed) < 10 and (line := process.stdout.readline()):
            printed += [line.strip().encode()] if line.strip().isdigit() else []
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    assert process.returncode == 0
    assert sorted(printed) == numbered(10)
    assert stands_at(each, "runners", "run-by", 1) == 5


def test_an_app_and_a_loop_over_messages_run_on_one_loop(each: Served) -> None:
    queues = filled(each, "looped", numbered(10), queues=2)
    app_saw: list[bytes] = []
    app = App("loop-app", namesrv=each.namesrv, start_from="first", call_timeout_ms=CALL_MS)

    @app.listener("looped", batch_max=4)
    async def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        app_saw.extend(message.body for message in messages)

    async def main() -> list[bytes]:
        seen: list[bytes] = []
        consumer = aio.PushConsumer(
            "loop-for", namesrv=each.namesrv, start_from="first", call_timeout_ms=CALL_MS
        ).subscribe("looped")
        async with app, consumer, aio.Producer("loop", namesrv=each.namesrv) as producer:
            for number, body in enumerate(numbered(10, 10)):
                queue = queues[number % 2]
                await producer.send(Message("looped", body), queue=queue, timeout_ms=SEND_MS)
            async for message in consumer:
                seen.append(message.body)
                if len(seen) == 20:
                    break
            while len(app_saw) < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return seen

    with nothing_left():
        seen = run(asyncio.wait_for(main(), 60))

    assert sorted(seen) == sorted(app_saw) == numbered(20)
    assert stands_at(each, "loop-app", "looped", 0) == 10
    # The last one is not settled: the loop did not ask for another.
    assert sum(stands_at(each, "loop-for", "looped", n) or 0 for n in range(2)) == 19


def test_a_name_server_that_is_gone_is_passed_over(each: Served) -> None:
    filled(each, "two-names", numbered(4), queues=1)
    ear = Ear()
    namesrv = f"127.0.0.1:1;{each.namesrv}"
    start_s = time.monotonic()
    with (
        nothing_left(),
        PushConsumer(
            "two-names", ear, namesrv=namesrv, start_from="first", call_timeout_ms=CALL_MS
        ).subscribe("two-names"),
    ):
        patiently(lambda: len(ear.messages) == 4)

    assert time.monotonic() - start_s < 30
    assert stands_at(each, "two-names", "two-names") == 4
