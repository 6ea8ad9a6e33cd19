"""`flintmq consume`: consume topics as a member of a group, and print the messages.

It is a member like any other: queues are shared with the group's other members, and what it commits
the others do not get.  An offset is committed after its message is printed, so a crash repeats and
loses nothing.  With ``--no-commit`` the group stays where it is, but the queues that this member
has are still not consumed by anybody else until it ends.

`flintmq tail` reads without a group.  Ctrl-C and SIGTERM end it with exit code 0, after a commit;
the other exit codes are those of `output`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flintmq.cli.messages.message_printer import Enough, message_printer, quiet_pipe
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.message_format import USUAL
from flintmq.cli.shared.offset_argument import parse_target
from flintmq.cli.shared.options import Sql, Tags
from flintmq.cli.shared.output import (
    Output,
    OutputOption,
    say,
)
from flintmq.cli.shared.spark_job import stopping
from flintmq.client.engine.client_config import ClientSettings
from flintmq.core.admin.spans import ToEnd, ToOffset, ToStart, ToTime
from flintmq.errors import InvalidSetting
from flintmq.model.group import is_retry_topic
from flintmq.model.queue import QueueRef

if TYPE_CHECKING:
    from flintmq.client.pull.pull_settings import LitePullSettings
    from flintmq.client.pull.threaded_pull import LitePullConsumer
    from flintmq.core.admin.spans import Target
    from flintmq.model.message import ReceivedMessage

POLL_MS: Final = 500
"""How long one poll waits; so long it may take until a signal is noticed."""

COMMIT_S: Final = 1.0
"""How often printed messages are committed while more come."""


@connected
def consume(
    settings: ClientSettings,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="What to consume.")],
    group: Annotated[str, typer.Option("--group", "-g", help="As a member of this group.")],
    commit: Annotated[
        bool,
        typer.Option(
            "--commit/--no-commit", help="Commit what was printed, or leave the group as it is."
        ),
    ] = True,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="start|end|TIME",
            help="Where a group starts that has no offset yet.",
        ),
    ] = "end",
    tag: Tags = None,
    sql: Sql = None,
    count: Annotated[
        int | None,
        typer.Option("--count", "-c", help="End after so many.", min=1, show_default=False),
    ] = None,
    idle: Annotated[
        float | None,
        typer.Option(
            "--idle",
            metavar="SECONDS",
            min=0.1,
            help="End when no message came for so long.",
            show_default=False,
        ),
    ] = None,
    template: Annotated[str, typer.Option("--format", "-f", help="As in flintmq tail.")] = USUAL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Consume topics as a member of a group, print each message, and commit.

    Retries of the group come only if its retry topic, %RETRY%GROUP, is named too. A group that
    has offsets goes on there: flintmq group reset moves it.

    Examples:
        flintmq consume orders --group billing --count 10
        flintmq consume orders refunds -g audit --from start --no-commit --json
    """
    from flintmq.client.pull.threaded_pull import LitePullConsumer

    chosen: LitePullSettings = {**settings, "auto_commit": False, **_start_settings(start)}
    show = message_printer(output, template, count)
    _require_topics(settings, topics)
    with stopping() as stop, LitePullConsumer(group, **chosen) as consumer:
        for topic in topics:
            consumer.subscribe(topic, tags=tag, sql=sql)
        with suppress(Enough), quiet_pipe():
            _print_all(consumer, show, stop.is_set, commit=commit, idle=idle)
    if not commit:
        say(f"{group} stays where it was: nothing is committed")


def _require_topics(settings: ClientSettings, topics: list[str]) -> None:
    """End the command where a consumer would wait without a word: no server, or no such topic."""
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        for topic in topics:
            if is_retry_topic(topic):  # brokers make it when they need it
                admin.cluster()
            else:
                admin.route(topic)


def _start_settings(start: str) -> LitePullSettings:
    target: Target = parse_target(start)
    match target:
        case ToStart():
            return {"start_from": "first"}
        case ToEnd():
            return {"start_from": "end"}
        case ToTime(time_ms):
            return {"start_from": "timestamp", "start_at_ms": time_ms}
        case ToOffset():
            reason = "queues have offsets of their own: give start, end or a time"
            raise InvalidSetting("from", start, reason)


def _print_all(
    consumer: LitePullConsumer,
    show: Callable[[ReceivedMessage], None],
    is_stopped: Callable[[], bool],
    *,
    commit: bool,
    idle: float | None,
) -> None:
    """Print what comes; whatever ends it, what was printed is committed."""
    printed: dict[QueueRef, int] = {}
    committed_s = last_s = time.monotonic()
    try:
        while not is_stopped():
            messages = consumer.poll(POLL_MS)
            now_s = time.monotonic()
            for message in messages:
                printed[QueueRef(message.topic, message.broker, message.queue_id)] = (
                    message.queue_offset + 1
                )
                show(message)  # the last one ends it
            if messages:
                last_s = now_s
            elif idle is not None and now_s - last_s >= idle:
                return
            if commit and printed and (not messages or now_s - committed_s >= COMMIT_S):
                consumer.commit(printed)
                printed, committed_s = {}, now_s
    finally:
        if commit and printed:
            consumer.commit(printed)
