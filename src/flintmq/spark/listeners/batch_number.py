"""The number of a micro-batch of listeners, which its offset has.

It makes an offset unlike any before it: a group that was set back reads the same ranges again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

NUMBER: Final = "n"
"""Where an offset has it."""


def number_of(offset: Mapping[str, Any]) -> int:
    """The number in an offset; 0 before the first micro-batch."""
    return int(offset.get(NUMBER, 0))


def numbered(offset: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The offset with a number."""
    return {**offset, NUMBER: number}
