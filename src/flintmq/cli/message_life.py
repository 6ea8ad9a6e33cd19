"""`flintmq message trace` and `flintmq message consume-directly`: the life of one message.

Traces are those that RocketMQ's clients and ours write when they are told to (``trace=True``).
Exit codes are those of `output`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.text import Text

from flintmq.cli.message import app
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.output import (
    FAILED,
    Output,
    OutputOption,
    exit_with,
    print_json,
    print_line,
    say,
    when,
)
from flintmq.cli.shared.tables import Wrapped, print_table
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import InvalidName
from flintmq.model.group import is_dead_letter_topic, is_retry_topic
from flintmq.model.topic import TRACE_TOPIC
from flintmq.printable import printable_lines

if TYPE_CHECKING:
    from flintmq.core.admin.message_trace import MessageLife

NO_TRACE = (
    "clients write traces only with trace=True (Java: enableMsgTrace), a few seconds late; "
    "--topic shows where the message is stored without them"
)


@app.command("trace")
@connected
def trace(
    settings: ClientSettings,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="Its unique id.")],
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", help="Its topic, if no trace tells it.", show_default=False),
    ] = None,
    trace_topic: Annotated[
        str, typer.Option("--trace-topic", help="Where clients write traces.")
    ] = TRACE_TOPIC,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the life of a message: sent, stored, each consumption, retries, dead letter.

    Examples:
        flintmq message trace C0000202593DF4924FC257225E350001
    """
    from flintmq.client.admin import Admin
    from flintmq.core.admin.message_trace import life_events

    with Admin(**settings) as admin:
        life = admin.trace(message_id, topic=topic, trace_topic=trace_topic)
    if life.is_empty:
        exit_with(f"there is no trace of {message_id}", FAILED, NO_TRACE)
    if output is Output.JSON:
        print_json(_facts(life))
        return
    events = life_events(life)
    first_ms = events[0].at_ms
    print_line(_title(life))
    print_table(
        ("time", "after", "what", "who", Wrapped("how")),
        (
            (when(each.at_ms), _after(each.at_ms - first_ms), each.what, each.who, each.detail)
            for each in events
        ),
    )
    if life.unreadable:
        say(f"{life.unreadable} trace records could not be read")


def _title(life: MessageLife) -> str:
    topics = [each.topic for each in life.sends]
    topics += [each.topic for each in life.transactions]
    topics += [each.topic for each in life.copies]
    kept = [each for each in topics if not is_retry_topic(each) and not is_dead_letter_topic(each)]
    return f"{life.message_id} of {kept[0] if kept else 'an unknown topic'}"


def _after(spent_ms: int) -> str:
    return f"+{spent_ms / 1000:.3f} s"


def _facts(life: MessageLife) -> dict[str, object]:
    from flintmq.core.admin.message_trace import stored_as

    return {
        "message_id": life.message_id,
        "sends": [msgspec.to_builtins(each) for each in life.sends],
        "transactions": [msgspec.to_builtins(each) for each in life.transactions],
        "consumptions": [asdict(each) for each in life.consumptions],
        "stored": [
            {
                "at_ms": each.store_ms,
                "as": stored_as(each),
                "topic": each.topic,
                "broker": each.broker,
                "queue_id": each.queue_id,
                "queue_offset": each.queue_offset,
                "reconsume_times": each.reconsume_times,
            }
            for each in life.copies
        ],
        "unreadable": life.unreadable,
    }


@app.command("consume-directly")
@connected
def consume_directly(
    settings: ClientSettings,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Whose member consumes it.")],
    message_id: Annotated[str, typer.Argument(metavar="ID", help="An id of either kind.")],
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", help="Its topic, if the id is unique.", show_default=False),
    ] = None,
    client: Annotated[
        str | None,
        typer.Option(
            "--client",
            metavar="CLIENT_ID",
            help="Which member; else the first. flintmq group connections lists them.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Have a member of a group consume one message at once, and show the result.

    The listener runs; no offset changes, and nothing is sent back. Exit code 1: it did not succeed.

    Examples:
        flintmq message consume-directly billing C000...0001 --topic orders
    """
    from flintmq.client.admin import Admin
    from flintmq.protocol.bodies.client_call import DirectOutcome

    with Admin(**settings) as admin:
        if topic is not None:
            found = admin.messages_by_id(topic, message_id)
            if not found:
                raise InvalidName("message id", message_id, f"{topic} has no such message")
            offset_id = found[-1].offset_message_id
        else:
            offset_id = message_id
        result = admin.consume_directly(group, offset_id, client_id=client)
    is_consumed = result.outcome in (DirectOutcome.SUCCESS, DirectOutcome.COMMIT)
    if output is Output.JSON:
        print_json(
            {
                "group": group,
                "offset_message_id": offset_id,
                "outcome": result.outcome,
                "elapsed_ms": result.elapsed_ms,
                "remark": result.remark,
            }
        )
    else:
        print_line(f"{group}: {result.outcome or 'no outcome'} in {result.elapsed_ms} ms")
        if result.remark:
            print_line(Text(printable_lines(result.remark.rstrip())))  # with the lines it has
    if not is_consumed:
        raise typer.Exit(FAILED)
