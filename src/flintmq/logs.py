"""The loggers of this package: what they are given of others is shown as `printable` does.

The record itself is changed, before any handler sees it.  So it holds for the log of our own
commands and for programs that log elsewhere in their own way, and no call has to think of it.

Refused: a value that cannot be seen, and one of more than `SHOWN_MAX` characters; of that the
beginning is shown.

Invariant: a record of ours is one line, and its traceback has no line that could be taken for one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flintmq.printable import printable, printable_lines

SHOWN_MAX = 2_000
"""Characters of one value.  A peer may send megabytes, and a log is kept and read by people."""


def logger(name: str) -> logging.Logger:
    """The logger of a module; use it in place of ``logging.getLogger``."""
    found = logging.getLogger(name)
    found.addFilter(_SHOWN)  # once, however often it is asked for
    return found


class _Text(str):
    """A value as it is, which is written so that it can be seen."""

    __slots__ = ()

    def __str__(self) -> str:
        shown = printable(self[:SHOWN_MAX])
        return shown if len(self) <= SHOWN_MAX else f"{shown}… ({len(self)} characters)"

    def __repr__(self) -> str:
        shown = repr(self[:SHOWN_MAX])
        return shown if len(self) <= SHOWN_MAX else f"{shown}… ({len(self)} characters)"


class _Shown(logging.Filter):
    """Lets every record pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.args:
            record.msg = _seen(record.msg)
        elif isinstance(record.args, Mapping):
            record.args = {name: _seen(value) for name, value in record.args.items()}
        else:
            record.args = tuple(map(_seen, record.args))
        if record.exc_info and not record.exc_text:
            text = logging.Formatter().formatException(record.exc_info)
            record.exc_text = "\n".join(f"  {line}" for line in printable_lines(text).split("\n"))
        return True


_SHOWN = _Shown()


def _seen(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else str(value)
    return value if len(text) <= SHOWN_MAX and text.isprintable() else _Text(text)
