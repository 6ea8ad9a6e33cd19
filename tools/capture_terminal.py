"""Pictures of a terminal: what the most used commands show at 80 and at 120 columns.

    PYTHONPATH=tests .venv/bin/python tools/capture_terminal.py

writes ``tests/golden/terminal``; ``tests/cli/test_pictures.py`` compares.  Each command runs on a
terminal of its own (a pty), with colours taken out and long lines broken as a terminal breaks them.
Ids, times, ports and rates are written as fixed ones of the same length.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from flintmq import Admin, EmbeddedBroker, Message, PushConsumer, ReceivedMessage
from flintmq.model.queue import QueueRef
from support.cli.dead_letters import bury
from support.cli.serving import COMMAND, environment
from support.client.support import wait_for

DIRECTORY: Final = Path(__file__).parents[1] / "tests" / "golden" / "terminal"
WIDTHS: Final = (80, 120)
ROWS: Final = 50
ENDS_S: Final = 60
"""How long a command may take."""

COMMANDS: Final = (
    "topic list",
    "topic show orders",
    "topic stats orders",
    "tail orders --from start --no-follow",
    "message find orders --key o-1",
    "message show MESSAGE --topic orders",
    "group list",
    "group lag billing",
    "group show billing",
    "dlq list",
    "dlq list billing",
    "group lag biling",
    "send orders o-4 --tag paid --key o-4 --queue broker-a/0",
)
"""``MESSAGE`` is the id of the first message."""

COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
SAME: Final = (
    (re.compile(r"\b[0-9A-F]{32}\b"), "C0A80001000078BFC0A8000100000000"),
    (re.compile(r"\b\d\d:\d\d:\d\d\.\d{3}\b"), "12:34:56.789"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "2026-11-16"),
    (re.compile(r"127\.0\.0\.1:\d{5}\b"), "127.0.0.1:10911"),
    (re.compile(r"\d+\.\d a second"), "0.0 a second"),
)
"""What differs from run to run, and what is written for it."""


def pictures(width: int) -> str:
    """All commands, one after the other, on terminals of this width."""
    with cluster() as (broker, first_id):
        parts = []
        for command in COMMANDS:
            words = command.replace("MESSAGE", first_id).split()
            parts.append(f"$ flintmq {command}\n{picture(words, broker.namesrv, width)}")
    return "\n".join(parts)


@contextmanager
def cluster() -> Iterator[tuple[EmbeddedBroker, str]]:
    """A broker with messages, dead letters and a member of a group that has read them all."""
    with EmbeddedBroker() as broker, Admin(namesrv=broker.namesrv) as admin:
        admin.create_topic("orders", queues=2)
        with broker.producer("shop") as producer:
            receipts = [
                producer.send(
                    Message("orders", b"order %d" % number, tags="paid", keys=[f"o-{number}"]),
                    queue=QueueRef(
                        "orders", "broker-a", number // 2
                    ),  # in order, whatever the time
                )
                for number in range(4)
            ]
        admin.create_topic("bills", queues=1)
        bury(broker, "billing", Message("bills", b"a bill that nobody can read", keys=["b-1"]))
        consumer = PushConsumer(
            "billing",
            _read,
            namesrv=broker.namesrv,
            start_from="first",
            client_ip="192.0.2.7",
            instance_name="shop",
            commit_interval_ms=100,
        )
        with consumer.subscribe("orders").subscribe("bills"):
            wait_for(lambda: _has_read_all(admin))
            yield broker, receipts[0].message_id


def _has_read_all(admin: Admin) -> bool:
    """Whether the member owns every queue, its retries among them, and has committed to the end."""
    owned = [told.running for told in admin.diagnose("billing").members if told.running]
    lag = admin.lag("billing")
    return len(lag.queues) >= 3 and lag.lag == 0 and [len(each.mq_table) for each in owned] == [4]


def _read(_messages: tuple[ReceivedMessage, ...]) -> None:
    """A listener that has nothing to say."""


def picture(words: list[str], namesrv: str, width: int) -> str:
    """What a terminal of this width shows of a command, without what differs from run to run."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, width, 0, 0))
    variables = environment(NAMESRV_ADDR=namesrv, TERM="xterm-256color", TZ=_zone_of_noon())
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        variables.pop(name, None)
    process = subprocess.Popen(
        [COMMAND, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=variables
    )
    os.close(theirs)
    killer = threading.Timer(ENDS_S, process.kill)
    killer.start()
    written = b""
    try:
        while chunk := os.read(ours, 65_536):
            written += chunk
    except OSError:  # the other side is closed
        pass
    finally:
        killer.cancel()
        os.close(ours)
        process.wait()
    text = COLOURS.sub("", written.decode()).replace("\r\n", "\n")
    for pattern, same in SAME:
        text = pattern.sub(same, text)
    return "".join(f"{part}\n" for line in text.splitlines() for part in _broken(line, width))


def _broken(line: str, width: int) -> list[str]:
    """A line as a terminal breaks it."""
    return [line[at : at + width].rstrip() for at in range(0, max(1, len(line)), width)]


def _zone_of_noon() -> str:
    """A zone in which no day ends while pictures are taken: times of today are shown alone."""
    hours = datetime.now(UTC).hour - 12
    return f"TST{hours:+d}"


def path_of(width: int) -> Path:
    return DIRECTORY / f"{width}-columns.txt"


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    for each in WIDTHS:
        path_of(each).write_text(pictures(each), encoding="utf-8")
        sys.stdout.write(f"{path_of(each)}\n")
