"""Which language a peer is written in: a name in JSON headers, a byte in binary ones."""

from __future__ import annotations

NAMES = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)
_NUMBERS = {name: number for number, name in enumerate(NAMES)}


def language_name(number: int) -> str:
    return NAMES[number] if 0 <= number < len(NAMES) else "OTHER"


def language_number(name: str) -> int:
    """Names that have no number become OTHER."""
    return _NUMBERS.get(name, _NUMBERS["OTHER"])
