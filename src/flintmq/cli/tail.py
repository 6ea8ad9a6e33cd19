"""`flintmq tail`: the messages of topics as they come, without being a member of any group.

First what is there already, from the place that was asked for, oldest first over all queues;
then what comes, queue by queue as it arrives.  A broker that goes away is waited for, and
queues that are new are found within `LOOK_AGAIN_S`.

A message that cannot be decoded is printed as it is stored, and told of on stderr.

Nothing is committed, and no other consumer notices.  Ctrl-C ends it with exit code 0; the
other exit codes are those of `output`.
"""

from __future__ import annotations

import asyncio
import heapq
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.messages.message_printer import Enough, message_printer, quiet_pipe
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.completion import complete_topic
from flintmq.cli.shared.message_format import CODES, USUAL, USUAL_OF_MANY, Template
from flintmq.cli.shared.message_view import report_bad
from flintmq.cli.shared.offset_argument import PLACES_HELP, Last, parse_beginning
from flintmq.cli.shared.output import Output, OutputOption, say
from flintmq.client.engine.client_config import ClientSettings
from flintmq.core.admin.spans import END, START, LocatedSpan, ToEnd
from flintmq.core.reading.read_span import Wanted
from flintmq.errors import FlintError, InvalidSetting, NoRoute, Unreachable
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef

if TYPE_CHECKING:
    from flintmq.client import admin_aio
    from flintmq.client.admin import Admin
    from flintmq.core.admin.spans import Target

LOOK_AGAIN_S = 30
"""How often the route is fetched for new queues; what consumers do."""

TRY_AGAIN_S = 1
"""How long a broker that did not answer is left alone."""

WAITING_MAX = 1_000
"""Messages that wait to be printed; then nobody pulls any more."""


Topics = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC",
        help="What to read; may be several.",
        autocompletion=complete_topic,
        show_default=False,
    ),
]
Start = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="start|end|OFFSET|-COUNT|TIME",
        help=f"Where to begin; -5 is the last five of each queue; {PLACES_HELP}.",
    ),
]
Count = Annotated[
    int | None,
    typer.Option("--count", "-c", help="Stop after N messages.", min=1, show_default=False),
]
Follow = Annotated[
    bool,
    typer.Option("--follow/--no-follow", " /-e", help="Wait for more at the end, or exit there."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help="What to print of each message; see above. -f is kcat's: tail follows without it.",
        show_default=f"{USUAL}; of several topics, {USUAL_OF_MANY}",
    ),
]


@connected
def tail(
    settings: ClientSettings,
    topics: Topics = None,
    start: Start = "end",
    tag: Annotated[
        str | None, typer.Option("--tag", help="Tags, as in a || b.", show_default=False)
    ] = None,
    sql: Annotated[
        str | None, typer.Option("--sql", help="A condition on properties.", show_default=False)
    ] = None,
    broker: Annotated[
        str | None, typer.Option("--broker", help="Only this broker.", show_default=False)
    ] = None,
    queue_id: Annotated[
        int | None, typer.Option("--queue", "-p", help="Only this queue.", show_default=False)
    ] = None,
    count: Count = None,
    follow: Follow = True,
    template: Format = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the messages of a topic; the whole text is below."""
    from flintmq.client.admin import Admin

    read = _checked_topics(topics, template)
    wanted, beginning = Wanted.by(tags=tag, sql=sql), parse_beginning(start)
    target = START if isinstance(beginning, Last) else beginning
    show = message_printer(output, template or (USUAL if len(read) == 1 else USUAL_OF_MANY), count)
    with suppress(Enough, KeyboardInterrupt), quiet_pipe():
        with Admin(**settings) as admin:
            spans: tuple[LocatedSpan, ...] = ()
            for topic in read:
                found = admin.locate_spans(topic, target, END, broker=broker, queue_id=queue_id)
                if not found:
                    raise NoRoute(topic, "it has no such queue")
                spans += found
            if isinstance(beginning, Last):
                spans = beginning.of(spans)
            if not isinstance(target, ToEnd):
                for message in _backlog(admin, spans, wanted):
                    show(message)
        if follow:
            picked = (broker, queue_id)
            # An interrupt while the loop is made would end in a mess: `_follow` lets it through.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                asyncio.run(_follow(settings, read, picked, spans, wanted, show))
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


tail.__doc__ = (
    "Print the messages of topics: those from a place on, then those that come. "
    "With --json each is one line of JSON.\n\n"
    "A terminal shows characters that it would obey as \\x1b and the like. A pipe or a file gets "
    "bytes: %s is the body as it was sent.\n\n"
    "--format is a text with codes, and \\n where a line ends: "
    + "; ".join(f"%{code} {what}" for code, (what, _) in CODES.items())
    + ".\n\nExamples:\n"
    + "    flintmq tail orders --from start\n"
    + "    flintmq tail orders payments --from 10m --tag paid --json\n"
    + r"    flintmq tail orders -e --from -5 --format '%k %s\n'"
)


def _checked_topics(topics: list[str] | None, template: str | None) -> tuple[str, ...]:
    """The topics, each once.  A format without codes is an error: -f is perhaps meant as follow."""
    is_follow = "-f is --format; tail follows by default"
    if template is not None and not Template(template).has_codes:
        raise InvalidSetting("format", template, f"it prints nothing of a message; {is_follow}")
    if not topics:
        raise InvalidSetting("topic", "", "name one or several")
    return tuple(dict.fromkeys(topics))


def _backlog(
    admin: Admin, spans: tuple[LocatedSpan, ...], wanted: Wanted
) -> Iterator[ReceivedMessage]:
    """What is there, in the order it was stored; each queue is in that order already."""
    readings = [admin.read(located, wanted, on_bad=report_bad) for located in spans]
    return heapq.merge(*readings, key=lambda message: message.store_ms)


async def _follow(
    settings: ClientSettings,
    topics: tuple[str, ...],
    picked: tuple[str | None, int | None],
    spans: tuple[LocatedSpan, ...],
    wanted: Wanted,
    show: Callable[[ReceivedMessage], None],
) -> None:
    from flintmq.client.admin_aio import Admin

    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    arrived: asyncio.Queue[ReceivedMessage | FlintError] = asyncio.Queue(WAITING_MAX)
    tasks: dict[QueueRef, asyncio.Task[None]] = {}
    async with Admin(**settings) as admin:

        def start(found: tuple[LocatedSpan, ...], where: Target) -> None:
            for located in found:
                span = located.span
                if span.queue not in tasks:
                    at = span.stop if isinstance(where, ToEnd) else span.start
                    work = _follow_queue(admin, located, at, wanted, arrived)
                    tasks[span.queue] = asyncio.create_task(work)

        async def look_again() -> None:
            while True:
                await asyncio.sleep(LOOK_AGAIN_S)
                for topic in topics:
                    with suppress(FlintError):
                        start(await _locate(admin, topic, picked), START)

        start(spans, END)
        watch = asyncio.create_task(look_again())
        try:
            while True:
                message = await arrived.get()
                if isinstance(message, FlintError):
                    raise message
                show(message)
        finally:
            for task in (watch, *tasks.values()):
                task.cancel()
            await asyncio.gather(watch, *tasks.values(), return_exceptions=True)


async def _locate(
    admin: admin_aio.Admin, topic: str, picked: tuple[str | None, int | None]
) -> tuple[LocatedSpan, ...]:
    broker, queue_id = picked
    return await admin.locate_spans(topic, START, END, broker=broker, queue_id=queue_id)


async def _follow_queue(
    admin: admin_aio.Admin,
    located: LocatedSpan,
    start: int,
    wanted: Wanted,
    arrived: asyncio.Queue[ReceivedMessage | FlintError],
) -> None:
    """Pull one queue for ever.  A refusal of a broker ends the command; an outage does not."""
    from flintmq.core.reading.follow import Follower
    from flintmq.model.queue import QueueOffset

    queue = located.span.queue
    follower = Follower(queue, located.address, QueueOffset(start), wanted=wanted)
    is_away = False
    while True:
        try:
            page = follower.answered(await admin.make(follower.call()))
            messages = page.shown(wanted, report_bad)
        except Unreachable as error:
            if not is_away:
                say(f"no answer from {error}; trying again until it is back")
            is_away = True
            await asyncio.sleep(TRY_AGAIN_S)
            continue
        except FlintError as error:
            await arrived.put(error)
            return
        is_away = False
        for message in messages:
            await arrived.put(message)
