"""`flintmq send`: one message from the command line, or one for each line of standard input.

Exit codes are those of `output`.  With ``--lines`` it stops at the first line that fails; the
lines before it are sent, and their receipts are printed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.output import Output, OutputOption, print_json_line, print_line
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import InvalidSetting
from flintmq.model.message import BODY_BYTES_MAX, Message
from flintmq.model.queue import QueueRef

if TYPE_CHECKING:
    from flintmq.core.producer.receipt import SendReceipt

STDIN = "-"

GROUP = "flintmq-send"
"""The producer group of messages from the command line."""


@connected
def send(
    settings: ClientSettings,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to.")],
    body: Annotated[str, typer.Argument(metavar="BODY", help="What; - reads standard input.")],
    tag: Annotated[
        str | None, typer.Option("--tag", "-t", help="Its tag.", show_default=False)
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", "-k", help="A key; may be repeated.")
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", metavar="NAME=VALUE", help="May be repeated."),
    ] = None,
    delay_level: Annotated[
        int, typer.Option("--delay-level", help="Deliver later, by the broker's table.", min=0)
    ] = 0,
    delay_ms: Annotated[
        int | None,
        typer.Option(
            "--delay-ms",
            help="Deliver so much later; needs a 5.x broker with its timer on.",
            min=0,
            show_default=False,
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="BROKER/ID", help="To this queue.", show_default=False),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="With BODY -: a message for each line.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send a message and say where it is stored."""
    from flintmq.client.producer.threaded_producer import Producer

    if delay_level and delay_ms is not None:
        raise InvalidSetting("delay-ms", str(delay_ms), "give --delay-level or --delay-ms")
    chosen = None if queue is None else _parse_queue(topic, queue)
    named = dict(map(_parse_property, properties or ()))
    with Producer(GROUP, **settings) as producer:
        for content in _bodies(body, lines=lines):
            message = Message(
                topic,
                content,
                tags=tag,
                keys=key or (),
                properties=named,
                delay_level=delay_level,
                delay_ms=delay_ms,
            )
            _print_receipt(producer.send(message, queue=chosen), output)


def _bodies(body: str, *, lines: bool) -> Iterator[bytes]:
    if body != STDIN:
        if lines:
            raise InvalidSetting("lines", body, "it reads standard input: give - for BODY")
        yield body.encode()
    elif lines:
        yield from _lines(sys.stdin.buffer)
    else:
        yield sys.stdin.buffer.read(BODY_BYTES_MAX + 1)


def _lines(stream: Iterable[bytes]) -> Iterator[bytes]:
    for line in stream:
        content = line.rstrip(b"\r\n")
        if content:
            yield content


def _parse_property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidSetting("property", text, "give NAME=VALUE")
    return name, value


def _parse_queue(topic: str, text: str) -> QueueRef:
    broker, slash, number = text.rpartition("/")
    if not slash or not broker or not number.isdecimal():
        raise InvalidSetting("queue", text, "give BROKER/ID, as in broker-a/3")
    return QueueRef(topic, broker, int(number))


def _print_receipt(receipt: SendReceipt, output: Output) -> None:
    if output is Output.JSON:
        print_json_line(
            {
                "message_id": receipt.message_id,
                "offset_message_id": receipt.offset_message_id,
                "topic": receipt.queue.topic,
                "broker": receipt.queue.broker,
                "queue_id": receipt.queue.queue_id,
                "queue_offset": receipt.queue_offset,
                "status": receipt.status,
            }
        )
        return
    print_line(
        f"{receipt.message_id} is at {receipt.queue_offset} of {receipt.queue}: {receipt.status}"
    )
