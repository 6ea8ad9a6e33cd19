"""The guide of asyncio lists the calls of `flintmq.aio` that are not awaited, and no others."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from flintmq import aio

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "asyncio.md"

OLD = {"listen", "register", "update", "resize"}
"""Deprecated names of others, but for `register` of `ScheduledPull`."""

INSIDE = {"direct_line", "require_running", "inbox", "function_ended"}
"""For the threaded classes, and for scheduled pulls."""


def listed(row: str) -> set[str]:
    (names,) = re.findall(rf"^\| {row} \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return set(re.findall(r"`(\w+)", names))


@pytest.mark.parametrize("name", aio.__all__)
def test_what_is_not_awaited_is_listed(name: str) -> None:
    kind = getattr(aio, name)
    plain = {
        each
        for each, value in inspect.getmembers(kind, callable)
        if not each.startswith("_")
        and not each.endswith("_past_loop")
        and not inspect.iscoroutinefunction(value)
        and not inspect.isasyncgenfunction(value)
    }
    page = PAGE.read_text(encoding="utf-8")
    own = listed(f"`{name}`") if f"| `{name}` |" in page else set()
    everywhere = listed("every client") if plain else set()

    assert plain - INSIDE - (OLD - own) - everywhere == own
