"""The templates, and the filters that write numbers and times for people.

Everything is escaped by Jinja; only `charts` and the filters here make markup, from numbers and
from text that they escape themselves.  Times are written in UTC; `console.js` turns them into the
time of the browser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from flintmq import __version__
from flintmq.printable import printable, printable_lines
from flintmq.reports.amounts import duration, rate_text, share_text, size_text

HOME: Final = Path(__file__).parents[1]
STATIC: Final = HOME / "static"

UNKNOWN: Final = Markup('<span class="unknown">unknown</span>')
NONE: Final = Markup('<span class="none" aria-label="none">-</span>')

HIDDEN: Final = "(hidden)"
SECRET_NAMES: Final = re.compile(r"secret|passw|token|credential|private|accesskey", re.IGNORECASE)
"""What settings are called whose values nobody is shown."""

YEAR_MAX_MS: Final = 253_402_300_799_000
"""The end of the year 9999: a later time is a peer's mistake, and no calendar has it."""


@cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HOME / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": count,
        "rate": lambda value: UNKNOWN if value is None else rate_text(value),
        "size": lambda value: UNKNOWN if value is None else size_text(value),
        "share": lambda value: UNKNOWN if value is None else share_text(value),
        "when": when,
        "lasting": lambda seconds: UNKNOWN if seconds is None else duration(seconds),
        "seen": printable,
        "seen_lines": printable_lines,
        "or_none": lambda value: NONE if value in (None, "", ()) else value,
    }
    made.globals |= {"version": __version__, "link": link, "masked": masked}
    return made


def template(name: str) -> Template:
    return environment().get_template(name)


def count(value: int | None) -> str | Markup:
    return UNKNOWN if value is None else f"{value:,}"


def when(time_ms: int | None) -> Markup:
    """A time in UTC, to the second."""
    if time_ms is None or not 0 < time_ms <= YEAR_MAX_MS:
        return UNKNOWN
    at = datetime.fromtimestamp(time_ms / 1000, UTC)
    iso, text = f"{at:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z", f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}">{}</time>').format(iso, text)


def masked(name: str, value: str) -> str:
    """The value of a setting, unless its name says that it is a secret."""
    return HIDDEN if SECRET_NAMES.search(name) else value


def link(path: str, fields: Mapping[str, object] | None = None, **more: object) -> str:
    """A path with its query; what is None or empty is left out."""
    merged = {**(fields or {}), **more}
    given = {name: str(value) for name, value in merged.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path
