"""The page of rights: what every request does, and who may send it when access control is on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import flintmq
from flintmq.access.control import PLAIN_RIGHTS
from flintmq.access.needs import TABLE
from flintmq.access.rights import Reserved, Right, Row
from flintmq.access.rules import Action, ResourceType
from flintmq.protocol.codes import RequestCode

INTRO: Final = (
    "\nWhat a request needs when access control is on; [security](../security.md) says how to turn "
    "it on. Every code is in the table: one that is not is refused to everybody but super users. "
    "A retry topic `%RETRY%g` counts as its group `g`. Where a request names a record by its place "
    "in the log, the topic of that record counts.\n\n"
    "In ACL 1.0, PUB gives Pub and SUB gives Sub; Get comes with either; all else takes an admin.\n"
)
_CODES: Final = Path(flintmq.__file__).parent / "protocol" / "codes.py"
_LINE: Final = re.compile(r"^    ([A-Z_0-9]+) = (\d+)(?:  # (.*))?$", re.MULTILINE)


def rows() -> Iterator[str]:
    yield "| request | what it does | ACL 2.0 | ACL 1.0 |"
    yield "|---|---|---|---|"
    source = _CODES.read_text(encoding="utf-8").partition("class ResponseCode")[0]
    does = {int(code): text for _, code, text in _LINE.findall(source)}
    for code in sorted(TABLE):
        what = does[int(code)].removeprefix("5.x: ").removeprefix("4.9: ").removeprefix("5.3: ")
        row = TABLE[code]
        name = f"{RequestCode(code).name} ({int(code)})"
        yield f"| {name} | {what} | {_modern(row)} | {_plain(row)} |"


def _modern(row: Row) -> str:
    return row.value if isinstance(row, Reserved) else ", ".join(map(str, row))


def _plain(row: Row) -> str:
    if isinstance(row, Reserved):
        return row.value.replace("a super user", "an admin")
    return ", ".join(dict.fromkeys(map(_plain_right, row)))


def _plain_right(right: Right) -> str:
    if right.type is ResourceType.CLUSTER or right.actions.isdisjoint(PLAIN_RIGHTS):
        return "an admin"
    wanted = sorted(right.actions & {Action.PUB, Action.SUB})
    words = " or ".join(action.name for action in wanted) or "PUB or SUB"
    return f"{words} on {right.words}"
