"""A broker that has nothing to do: what connections, queues and held pulls cost it.

`flintmq serve` runs as its own process.  Its memory is what belongs to it alone, its CPU the
share of one core over some seconds in which nothing arrives.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import connect
from flintmq.net.loop import run as run_loop
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.pull import PullFlag, PullMessage
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.headers.topic import CreateTopic

CONNECTIONS = 1_000
HOLDS = 10_000
TOPICS, QUEUES = 625, 16
WATCHED_S = 10
SETTLE_S = 12
"""By then what was written has been synced, queues and index too, and the tables are saved."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(directory: Path) -> Iterator[tuple[int, str]]:
    """The process id and the broker's address of a server on free ports."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "flintmq", "serve", "--data", str(directory)),
            *("--namesrv-listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        yield process.pid, words["broker"]
    finally:
        process.terminate()
        process.wait(30)


def cpu_s(pid: int) -> float:
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS_PER_S


def private_mib(pid: int) -> float:
    """Memory that no file stands behind; pages of mapped files are the system's to take back."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024


async def idle_percent(pid: int) -> float:
    """The share of a core used while nothing arrives."""
    await asyncio.sleep(SETTLE_S)
    before, started = cpu_s(pid), time.monotonic()
    await asyncio.sleep(WATCHED_S)
    return (cpu_s(pid) - before) / (time.monotonic() - started) * 100


async def fill_queues(channel: Channel) -> None:
    """A message in each of many queues."""
    for number in range(TOPICS):
        topic = f"rest_{number}"
        header = CreateTopic(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=QUEUES,
            write_queue_nums=QUEUES,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            order=False,
        )
        await channel.call(request(RequestCode.UPDATE_AND_CREATE_TOPIC, header), 10_000)
        sends = [
            SendMessageV2(
                topic=topic, queue_id=queue, sys_flag=0, born_timestamp=0, flag=0, properties=""
            )
            for queue in range(QUEUES)
        ]
        answers = await asyncio.gather(
            *(
                channel.call(request(RequestCode.SEND_MESSAGE_V2, send, b"x" * 128), 10_000)
                for send in sends
            )
        )
        assert all(answer.code == 0 for answer in answers), answers


def held_pull(number: int) -> PullMessage:
    return PullMessage(
        consumer_group="at_rest",
        topic=f"rest_{number // QUEUES % TOPICS}",
        queue_id=number % QUEUES,
        queue_offset=1,
        max_msg_nums=32,
        sys_flag=int(PullFlag.SUSPEND | PullFlag.SUBSCRIPTION),
        suspend_timeout_millis=120_000,
        subscription="*",
    )


async def measured(directory: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with serving(directory) as (pid, address):
        rows.append({"name": "memory, empty", "value": private_mib(pid), "unit": "MiB"})
        channels = [await connect(address) for _ in range(CONNECTIONS)]
        name = f"{CONNECTIONS:,} idle connections"
        rows.append({"name": f"memory, {name}", "value": private_mib(pid), "unit": "MiB"})
        rows.append(
            {"name": f"CPU, {name}", "value": await idle_percent(pid), "unit": "% of a core"}
        )
        await fill_queues(channels[0])
        name += f", {TOPICS * QUEUES:,} queues"
        rows.append({"name": f"memory, {name}", "value": private_mib(pid), "unit": "MiB"})
        rows.append(
            {"name": f"CPU, {name}", "value": await idle_percent(pid), "unit": "% of a core"}
        )
        pulls = [
            asyncio.ensure_future(
                channels[number % CONNECTIONS].call(
                    request(RequestCode.PULL_MESSAGE, held_pull(number)), 120_000
                )
            )
            for number in range(HOLDS)
        ]
        percent = await idle_percent(pid)
        assert not any(pull.done() for pull in pulls), "a pull was answered"
        rows.append(
            {
                "name": f"CPU, {HOLDS:,} held pulls",
                "value": percent,
                "unit": "% of a core",
                "goal": "<= 1",
            }
        )
        rows.append(
            {"name": f"memory, {HOLDS:,} held pulls", "value": private_mib(pid), "unit": "MiB"}
        )
        for pull in pulls:
            pull.cancel()
        await asyncio.gather(*pulls, return_exceptions=True)
        await asyncio.gather(*(channel.close(0) for channel in channels))
    return rows


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as directory:
        return run_loop(measured(Path(directory)))
