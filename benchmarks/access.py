"""What access control costs: CPU of a broker per send, with accounts beside without.

    python -m benchmarks access

Two brokers are processes of their own, one with users of ACL 2.0 and one open.  They get the same
sends over the same number of connections, one at a time on each, in rounds that alternate, so that
whatever else the machine does falls on both.  Frames are made and signed before the clock runs.
In half of the loads every message has a key of its own.  The ratio is the median of the ratios of
the rounds.
"""

from __future__ import annotations

import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Self

from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.signature import sign
from flintmq.protocol.wire import encode_command

Row = dict[str, object]

LOADS: Final = ((64, False), (16, False), (64, True))
"""Connections, and whether messages have keys."""

ROUNDS: Final = 11
SENDS: Final = 4_000
"""Of one round, over all connections: a tenth of a second of CPU."""

FRAMES: Final = 32
"""Different sends of one connection; they are sent again and again."""

GOAL: Final = "<= 1.25"
USER, PASSWORD = "bench", "bench-password"
BODY: Final = b"x" * 128
START_S = 60.0
_READY: Final = re.compile(r" broker=(?P<broker>\S+)")


def run() -> list[Row]:
    rows: list[Row] = []
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flintmq-bench-")))
        guarded = stack.enter_context(_broker(scratch / "guarded", guarded=True))
        plain = stack.enter_context(_broker(scratch / "open", guarded=False))
        for count, keyed in LOADS:
            with (
                _Load(guarded, count, signed=True, keyed=keyed) as with_acl,
                _Load(plain, count, signed=False, keyed=keyed) as without,
            ):
                rows += _compare(
                    f"{count} connections{', keys' if keyed else ''}", with_acl, without
                )
    return rows


def _compare(name: str, with_acl: _Load, without: _Load) -> list[Row]:
    on: list[float] = []
    off: list[float] = []
    for each in (with_acl, without):
        each.cost()  # headers become known, files are made
    for number in range(ROUNDS):
        for load, costs in ((with_acl, on), (without, off))[:: 1 if number % 2 else -1]:
            costs.append(load.cost())
    ratio = statistics.median(ours / theirs for ours, theirs in zip(on, off, strict=True))
    return [
        {"name": f"send, {name}, open", "value": round(statistics.median(off), 1), "unit": "µs"},
        {"name": f"send, {name}, signed", "value": round(statistics.median(on), 1), "unit": "µs"},
        {
            "name": f"{name}: signed / open",
            "value": round(ratio, 3),
            "unit": "ratio",
            "goal": GOAL,
        },
    ]


class _Broker:
    """The process of a broker."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self._tasks = Path(f"/proc/{process.pid}/task")
        host, _, port = address.rpartition(":")
        self.address = host, int(port)

    def cpu_s(self) -> float:
        """What all its threads have used, by the scheduler's account in nanoseconds."""
        times = (each.read_text().split()[0] for each in self._tasks.glob("*/schedstat"))
        return sum(map(int, times)) / 1e9


@contextmanager
def _broker(directory: Path, *, guarded: bool) -> Iterator[_Broker]:
    anywhere = "127.0.0.1:0"
    options = ["--acl", "auth", "--first-user", USER] if guarded else []
    command = Path(sys.executable).with_name("flintmq")
    process = subprocess.Popen(
        [
            *(command, "serve", "--namesrv-listen", anywhere, "--broker-listen", anywhere),
            *("--data", str(directory), "--flush", "async", *options),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "FLINTMQ_FIRST_USER_PASSWORD": PASSWORD},
    )
    try:
        assert process.stdout is not None
        found = _READY.search(process.stdout.readline())
        assert found is not None, "the broker did not start"
        yield _Broker(process, found["broker"])
    finally:
        process.terminate()
        process.wait(START_S)


class _Load:
    """Connections to one broker, each with one send under way."""

    def __init__(self, broker: _Broker, count: int, *, signed: bool, keyed: bool) -> None:
        self._broker = broker
        self._sockets = [socket.create_connection(broker.address) for _ in range(count)]
        self._frames = [_frames(number, signed=signed, keyed=keyed) for number in range(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            each.close()

    def cost(self) -> float:
        """Microseconds of the broker's CPU for each send of one round."""
        began = self._broker.cpu_s()
        with selectors.DefaultSelector() as selector:
            for number, each in enumerate(self._sockets):
                selector.register(each, selectors.EVENT_READ, number)
                each.sendall(self._frames[number][0])
            sent, answered = len(self._sockets), 0
            while answered < SENDS:
                for key, _ in selector.select():
                    heard = key.fileobj.recv(65_536)  # type: ignore[union-attr]  # a socket
                    assert b'"code":0,' in heard, heard
                    answered += 1
                    if sent < SENDS:
                        frame = self._frames[key.data][sent % FRAMES]
                        key.fileobj.sendall(frame)  # type: ignore[union-attr]  # a socket
                        sent += 1
        return (self._broker.cpu_s() - began) / SENDS * 1e6


def _frames(connection: int, *, signed: bool, keyed: bool) -> list[bytes]:
    made = []
    for number in range(FRAMES):
        unique = f"{connection:016X}{number:016X}"
        keys = f"KEYS\x01order-{connection * FRAMES + number}\x02" if keyed else ""
        header = SendMessageV2(
            producer_group="producers",
            topic="orders",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=number % 4,
            sys_flag=0,
            born_timestamp=1_700_000_000_000 + number,
            flag=0,
            properties=f"TAGS\x01TagA\x02{keys}UNIQ_KEY\x01{unique}\x02WAIT\x01true\x02",
            broker_name="broker-a",
        )
        command = request(RequestCode.SEND_MESSAGE_V2, header, BODY, opaque=number + 1)
        made.append(encode_command(sign(command, USER, PASSWORD) if signed else command))
    return made
