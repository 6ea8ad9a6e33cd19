"""`flintmq send`: one message from the command line, or one for each line of standard input.

Exit codes are those of `output`.  With ``--lines`` it stops at the first line that fails; the
lines before it are sent, and their receipts are printed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.messages.delays import level_delay_ms
from flintmq.cli.messages.message_json import parse_queue, receipt_facts
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.completion import complete_topic
from flintmq.cli.shared.output import Output, OutputOption, print_json_line, print_line, timestamp
from flintmq.cli.traffic.send_lines import send_lines
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import InvalidSetting
from flintmq.model.message import BODY_BYTES_MAX, Message
from flintmq.model.queue import QueueRef
from flintmq.net.clock import wall_ms

if TYPE_CHECKING:
    from flintmq.core.producer.receipt import SendReceipt

STDIN = "-"

GROUP = "flintmq-send"
"""The producer group of messages from the command line."""


TopicOfAll = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPIC",
        help="Where to; with --json-lines, in place of the topics of the lines.",
        autocompletion=complete_topic,
        show_default=False,
    ),
]
Body = Annotated[
    str | None,
    typer.Argument(metavar="BODY", help="What; - reads standard input.", show_default=False),
]
DelayMs = Annotated[
    int | None,
    typer.Option(
        "--delay-ms",
        help="Deliver so much later; needs a 5.x broker with its timer on.",
        min=0,
        show_default=False,
    ),
]
JsonLines = Annotated[
    str | None,
    typer.Option(
        "--json-lines",
        metavar="FILE|-",
        help="A message for each line of JSON; see above.",
        show_default=False,
    ),
]


DelayLevel = Annotated[
    int,
    typer.Option(
        "--delay-level",
        help="Deliver later, by the broker's table; 1 is 1 s, 18 is 2 h.",
        min=0,
    ),
]
ToQueue = Annotated[
    str | None,
    typer.Option("--queue", metavar="BROKER/ID", help="To this queue.", show_default=False),
]


@connected
def send(
    settings: ClientSettings,
    topic: TopicOfAll = None,
    body: Body = None,
    tag: Annotated[
        str | None, typer.Option("--tag", "-t", help="Its tag.", show_default=False)
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", "-k", help="A key; may be repeated.")
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", metavar="NAME=VALUE", help="A property; may be repeated."),
    ] = None,
    delay_level: DelayLevel = 0,
    delay_ms: DelayMs = None,
    queue: ToQueue = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="With BODY -: a message for each line.")
    ] = False,
    json_lines: JsonLines = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send a message and say where it is stored; with --json-lines, many.

    A line has topic, body or body_base64, and may have tags, keys, properties, flag, queue
    (BROKER/ID), delay_level, delay_ms, deliver_at_ms. What flintmq tail --json prints can be sent
    again; ids, offsets and times are new then. Lines that fail are reported with their numbers.

    Examples:
        flintmq send orders 'o-1' --tag paid --key o-1
        flintmq send orders - --lines < orders.txt
        flintmq send orders 'o-2' --delay-level 3
        flintmq send --json-lines orders.jsonl
        flintmq send copies --json-lines - < orders.jsonl
    """
    if json_lines is not None:
        if (
            body
            or tag
            or key
            or properties
            or delay_level
            or delay_ms is not None
            or queue
            or lines
        ):
            raise InvalidSetting("json-lines", json_lines, "give no BODY and no message options")
        send_lines(settings, GROUP, json_lines, topic, output)
        return
    if topic is None or body is None:
        raise InvalidSetting("topic", topic or "", "give TOPIC and BODY, or --json-lines")
    if delay_level and delay_ms is not None:
        raise InvalidSetting("delay-ms", str(delay_ms), "give --delay-level or --delay-ms")
    message_of = partial(
        Message,
        topic,
        tags=tag,
        keys=key or (),
        properties=dict(map(_parse_property, properties or ())),
        delay_level=delay_level,
        delay_ms=delay_ms,
    )
    chosen = None if queue is None else parse_queue(topic, queue)
    held_ms = level_delay_ms(settings, delay_level) if delay_level else delay_ms
    _send_all(settings, map(message_of, _bodies(body, lines=lines)), chosen, held_ms, output)


def _send_all(
    settings: ClientSettings,
    messages: Iterable[Message],
    queue: QueueRef | None,
    held_ms: int | None,
    output: Output,
) -> None:
    from flintmq.client.producer.threaded_producer import Producer

    with Producer(GROUP, **settings) as producer:
        for message in messages:
            receipt = producer.send(message, queue=queue)
            _print_receipt(receipt, wall_ms() + held_ms if held_ms else None, output)


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


def _print_receipt(receipt: SendReceipt, deliver_at_ms: int | None, output: Output) -> None:
    if output is Output.JSON:
        print_json_line({**receipt_facts(receipt), "deliver_at_ms": deliver_at_ms})
        return
    if deliver_at_ms is not None:  # it is in no queue of the topic before
        where = f"{receipt.queue.topic} at about {timestamp(deliver_at_ms)}"
        print_line(f"{receipt.message_id} will be delivered to {where}: {receipt.status}")
        return
    print_line(
        f"{receipt.message_id} is at {receipt.queue_offset} of {receipt.queue}: {receipt.status}"
    )
