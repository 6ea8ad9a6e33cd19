"""A message as the commands show it: as JSON, as one line, as a page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from flintmq.cli.output import moment, print_line, print_table
from flintmq.errors import InvalidSetting
from flintmq.model.message import ReceivedMessage

USUAL_LINE = "{time} {broker}/{queue_id}/{offset} {tags} {body}"
"""How a message is printed on one line unless told otherwise."""


def facts_of(message: ReceivedMessage) -> dict[str, object]:
    """Every field under its name.  A body that is no UTF-8 is ``body_base64`` instead."""
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


def line_of(message: ReceivedMessage, template: str) -> str:
    """One line by a template with ``{names}``; `InvalidSetting` names an unknown one."""
    try:
        return template.format_map(_words(message))
    except KeyError as error:
        known = ", ".join(sorted(_words(message)))
        reason = f"{error.args[0]!r} is not known; there are {known}"
        raise InvalidSetting("format", template, reason) from None
    except (ValueError, AttributeError, IndexError, TypeError) as error:
        raise InvalidSetting("format", template, str(error)) from None


def _words(message: ReceivedMessage) -> Mapping[str, object]:
    return {
        "topic": message.topic,
        "broker": message.broker,
        "queue_id": message.queue_id,
        "offset": message.queue_offset,
        "id": message.message_id,
        "tags": message.tags or "-",
        "keys": " ".join(message.keys) or "-",
        "time": moment(message.store_ms) or "",
        "store_ms": message.store_ms,
        "born_ms": message.born_ms,
        "size": len(message.body),
        "reconsume_times": message.reconsume_times,
        "body": message.body.decode(errors="backslashreplace"),
    }


def print_page(message: ReceivedMessage) -> None:
    """Everything about one message, for people."""
    facts = facts_of(message)
    facts["born_ms"], facts["store_ms"] = moment(message.born_ms), moment(message.store_ms)
    properties = facts.pop("properties")
    body = facts.pop("body", None) or facts.pop("body_base64", "")
    facts["keys"] = " ".join(message.keys) or None
    assert isinstance(properties, dict)
    rows = [*facts.items(), *sorted((f"property {name}", v) for name, v in properties.items())]
    print_table(("field", "value"), ([name, None if v is None else str(v)] for name, v in rows))
    print_line("")
    print_line(_plain(str(body)))


def _plain(text: str) -> object:
    from rich.text import Text  # so that a body is never read as markup

    return Text(text)
