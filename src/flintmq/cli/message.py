"""`flintmq message`: finding single messages.  Exit codes are those of `output`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.completion import complete_topic
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.message_view import facts_of, print_found, print_page, report_bad
from flintmq.cli.shared.output import (
    FAILED,
    UNREACHABLE,
    USAGE_ERROR,
    Output,
    OutputOption,
    exit_with,
    print_json,
)
from flintmq.cli.shared.times import Since, Until, parse_times
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import InvalidName, InvalidSetting, Unreachable

if TYPE_CHECKING:
    from flintmq.client.admin import Admin
    from flintmq.model.message import ReceivedMessage

_HEX = re.compile("[0-9A-Fa-f]{32,}")
"""What ids of both kinds look like."""

app = typer.Typer(help="Find single messages.", no_args_is_help=True, epilog=EXIT_CODES)


@app.command()
@connected
def show(
    settings: ClientSettings,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="An id of either kind.")],
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", help="Its topic, if the id is unique.", show_default=False),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a message by its offset id, or by its unique id and topic.

    Examples:
        flintmq message show C0A80001000078BFC0A8000100000000 --topic orders
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        found = _find_by_id(admin, message_id, topic)
    if output is Output.JSON:
        print_json([facts_of(message) for message in found])
        return
    for message in found:
        print_page(message)


@app.command()
@connected
def find(
    settings: ClientSettings,
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Where to look.", autocompletion=complete_topic)
    ],
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="A key it carries.", show_default=False)
    ] = None,
    message_id: Annotated[
        str | None, typer.Option("--id", help="An id of either kind.", show_default=False)
    ] = None,
    since: Since = None,
    until: Until = None,
    tag: Annotated[
        str | None, typer.Option("--tag", help="Tags, as in a || b.", show_default=False)
    ] = None,
    sql: Annotated[
        str | None, typer.Option("--sql", help="A condition on properties.", show_default=False)
    ] = None,
    count: Annotated[int, typer.Option("--count", "-c", help="At most so many.", min=1)] = 64,
    output: OutputOption = Output.TABLE,
) -> None:
    """Find messages by key, by id, or by the time they were stored.

    Examples:
        flintmq message find orders --key o-1
        flintmq message find orders --since 10m --tag paid --json
    """
    from flintmq.client.admin import Admin
    from flintmq.core.reading.read_span import Wanted

    start_ms, stop_ms = parse_times(since, until)
    if message_id is not None and (key or since or until):
        raise InvalidSetting("id", message_id, "an id is looked up alone")
    if (key or message_id) is not None and (tag or sql) is not None:
        reason = "a key or an id is looked up without --tag and --sql"
        raise InvalidSetting("key" if key else "id", key or message_id or "", reason)
    with Admin(**settings) as admin:
        if message_id is not None:
            found = _find_by_id(admin, message_id, topic)
        elif key is not None:
            found = admin.messages_by_key(
                topic,
                key,
                count_max=count,
                start_ms=start_ms,
                stop_ms=stop_ms,
                on_bad=report_bad,
            )
        elif since is None and until is None:
            raise InvalidSetting("key", "", "give --key, --id, --since or --until")
        else:
            wanted = Wanted.by(tags=tag, sql=sql)
            found = admin.messages_by_time(
                topic, start_ms, stop_ms, wanted=wanted, count_max=count, on_bad=report_bad
            )
    _print_found(found, output)
    if not found:
        exit_with(f"{topic} has no such message", FAILED)


def _find_by_id(admin: Admin, message_id: str, topic: str | None) -> tuple[ReceivedMessage, ...]:
    """Both kinds of id look alike: with a topic it is first taken for a unique id."""
    if topic is not None:
        found = admin.messages_by_id(topic, message_id, on_bad=report_bad)
        if found:
            return found
    try:
        message = admin.message_at(message_id, on_bad=report_bad)
    except InvalidName:
        if topic is not None:
            exit_with(f"{topic} has no message {message_id}", FAILED)
        if not _HEX.fullmatch(message_id):
            raise
        exit_with(f"{message_id} is a unique id: add --topic TOPIC", USAGE_ERROR)
    except Unreachable as error:
        exit_with(f"no answer from {error}", UNREACHABLE, "if the id is unique, add --topic TOPIC")
    if message is None:
        exit_with(f"there is no message at {message_id} any more", FAILED)
    return (message,)


def _print_found(found: tuple[ReceivedMessage, ...], output: Output) -> None:
    if output is Output.JSON:
        print_json([facts_of(message) for message in found])
    elif found:
        print_found(found)
