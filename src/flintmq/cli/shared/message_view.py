"""A message as the commands show it: as JSON, in a table, as a page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable

from rich.text import Text

from flintmq.cli.shared.output import print_line, say, timestamp, when
from flintmq.cli.shared.tables import Wrapped, print_fields, print_table
from flintmq.model.bad_record import BadRecord
from flintmq.model.message import ReceivedMessage
from flintmq.printable import printable_lines

_TIMES = {"born_ms": "born_at", "store_ms": "stored_at"}
"""What a page calls the times, which it shows for people."""

BODY_SHOWN = 60
"""Characters of a body in a table."""


def facts_of(message: ReceivedMessage) -> dict[str, object]:
    """The fields of a message by name.  A body that is not UTF-8 is ``body_base64`` instead."""
    facts: dict[str, object] = {
        "message_id": message.message_id,
        "offset_message_id": message.offset_message_id,
        "topic": message.topic,
        "broker": message.broker,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "log_offset": message.log_offset,
        "tags": message.tags,
        "keys": list(message.keys),
        "properties": dict(message.properties),
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "born_ms": message.born_ms,
        "born_host": str(message.born_host),
        "store_ms": message.store_ms,
        "store_host": str(message.store_host),
        "reconsume_times": message.reconsume_times,
        "stored_bytes": message.stored_bytes,
    }
    try:
        facts["body"] = message.body.decode()
    except UnicodeDecodeError:
        facts["body_base64"] = b64encode(message.body).decode()
    return facts


def report_bad(bad: BadRecord) -> None:
    """Report on stderr that a message cannot be decoded; it is shown as it is stored."""
    say(f"{bad}; it is shown as it is stored" if bad.raw else str(bad))


def print_page(message: ReceivedMessage) -> None:
    """Everything about one message, for people."""
    facts = facts_of(message)
    facts = {_TIMES.get(name, name): value for name, value in facts.items()}
    facts |= {"born_at": timestamp(message.born_ms), "stored_at": timestamp(message.store_ms)}
    properties = facts.pop("properties")
    body = facts.pop("body", None) or facts.pop("body_base64", "")
    facts["keys"] = " ".join(message.keys) or None
    assert isinstance(properties, dict)
    print_fields(
        [
            *((name.replace("_", " "), value) for name, value in facts.items()),
            *sorted((f"property {name}", value) for name, value in properties.items()),
        ]
    )
    print_line("")
    print_line(Text(printable_lines(str(body))))  # with the lines it has


def print_found(messages: Iterable[ReceivedMessage]) -> None:
    """Print messages, a row for each."""
    print_table(
        (
            *("stored at", "broker", "queue", "offset", "id"),
            *(Wrapped("tag"), Wrapped("keys"), Wrapped("body")),
        ),
        (
            (
                when(message.store_ms),
                message.broker,
                message.queue_id,
                message.queue_offset,
                message.message_id,
                message.tags,
                " ".join(message.keys) or None,
                short_body(message),
            )
            for message in messages
        ),
    )


def short_body(message: ReceivedMessage) -> str:
    return message.body[: 4 * BODY_SHOWN].decode(errors="backslashreplace")[:BODY_SHOWN]
