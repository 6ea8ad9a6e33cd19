"""`flintmq send --json-lines`: a message for each line of JSON, in the order of the lines.

A line that cannot be sent is reported with its number, and the next ones are still sent; exit code
1 says that there were some.  After `FAILURES_MAX` failures in a row it gives up: then it is the
broker, or the whole file, and not a line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from flintmq.cli.messages.message_json import read_message, receipt_facts
from flintmq.cli.shared.output import (
    FAILED,
    Output,
    exit_with,
    print_json_line,
    print_line,
    say,
)
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import FlintError, InvalidSetting
from flintmq.model.message import BODY_BYTES_MAX

if TYPE_CHECKING:
    from flintmq.core.producer.receipt import SendReceipt

STDIN: Final = "-"

LINE_BYTES_MAX: Final = 2 * BODY_BYTES_MAX + 1024 * 1024
"""A line of JSON: the largest body in base64, or with every second character escaped, and the rest.

Without a limit a file that has no line ends would be read into memory as one line.
"""

FAILURES_MAX: Final = 100
"""Lines that fail one after the other before the rest is given up."""


def send_lines(
    settings: ClientSettings, group: str, path: str, topic: str | None, output: Output
) -> None:
    """Send every line of a file, or of standard input; ``topic`` beats those of the lines."""
    from flintmq.client.producer.threaded_producer import Producer

    sent = failed = in_a_row = 0
    with _opened(path) as stream, Producer(group, **settings) as producer:
        for number, line in _lines(stream):
            try:
                message, queue = read_message(line, topic)
                _report(number, producer.send(message, queue=queue), output)
            except FlintError as error:
                failed, in_a_row = failed + 1, in_a_row + 1
                _report_failure(number, error, output)
                if in_a_row == FAILURES_MAX:
                    say(f"{in_a_row} lines failed one after the other: the rest is not tried")
                    break
            else:
                sent, in_a_row = sent + 1, 0
    if output is Output.TABLE:
        print_line(f"{sent} messages are sent")
    if failed:
        exit_with(f"{failed} lines failed; {sent} are sent", FAILED)


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Lines that have something in them, with their numbers from 1 on."""
    number = 0
    while line := stream.readline(LINE_BYTES_MAX):
        number += 1
        if len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
            exit_with(f"line {number} is longer than {LINE_BYTES_MAX:,} bytes", FAILED)
        if line.strip():
            yield number, line


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    if path == STDIN:
        yield sys.stdin.buffer
        return
    with ExitStack() as closed:
        try:
            file = closed.enter_context(Path(path).open("rb"))
        except OSError as error:
            raise InvalidSetting("json-lines", path, error.strerror or str(error)) from None
        yield file


def _report(number: int, receipt: SendReceipt, output: Output) -> None:
    if output is Output.JSON:
        print_json_line({"line": number, **receipt_facts(receipt)})


def _report_failure(number: int, error: FlintError, output: Output) -> None:
    if output is Output.JSON:
        print_json_line({"line": number, "error": str(error)})
    else:
        say(f"line {number}: {error}")
