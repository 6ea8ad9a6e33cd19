"""Offsets in Spark's progress reports: JSON text, a tree, the text of a Python dictionary, or none.

Versions 4.0 and 4.1 give the text of a dictionary where newer ones give JSON.
"""

from __future__ import annotations

import ast
import json
from typing import Any


def read_offset(reported: Any) -> dict[str, Any] | None:
    """The tree of a reported offset; None where there is none."""
    if isinstance(reported, str):
        try:
            reported = json.loads(reported)
        except ValueError:
            reported = _literal(reported)
    return reported if isinstance(reported, dict) else None


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
