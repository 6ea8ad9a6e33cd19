"""Which brokers a data directory has, and where the store of each is.

    DIR/brokers.json          {"broker-a": "broker-a", "broker-b": "broker-b"}: names and places
    DIR/broker-a, DIR/broker-b

A directory that was made for one broker has its store at the top and no such file; it opens as
before.  When it is opened for more, its broker keeps that place and only the others get directories
below.  More brokers than before are added.  Fewer, or other names, are refused while a broker that
would be left out holds messages: nobody could read them.

Invariant: what is written down names every broker whose messages are below the directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase
from typing import Final

import msgspec

from flintmq.errors import InvalidSetting
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import COMMIT_LOG_DIRECTORY

LAYOUT_FILE: Final = "brokers.json"
TOP: Final = "."
"""The place of a broker whose store is the directory itself."""

FIRST_LETTER: Final = "-a"


def broker_names(name: str, count: int) -> list[str]:
    """The names of so many brokers: broker-a, broker-b, …; of another name shop-0, shop-1, …"""
    if count == 1:
        return [name]
    if name.endswith(FIRST_LETTER):
        return [name[:-1] + letter for letter in ascii_lowercase[:count]]
    return [f"{name}-{number}" for number in range(count)]


def broker_directories(root: Path, name: str, count: int) -> dict[str, Path]:
    """The store directory of each broker, in the order of their names; written down if they are.

    Raises `InvalidSetting` where brokers with messages would be left out.
    """
    with Disk() as disk:
        known = _read(disk, root)
        if known is None and count == 1:
            return {name: root}
        names = broker_names(name, count)
        if count == 1 and known is not None and name not in known:
            names = broker_names(name, 2)[:1]  # the one that is left of several
        kept = known or {}
        _refuse_loss(root, names, kept)
        first = TOP if known is None and _holds_messages(root) else names[0]
        places = {each: kept.get(each, first if each == names[0] else each) for each in names}
        if places != known:
            disk.make_directory(root)
            disk.replace(root / LAYOUT_FILE, msgspec.json.encode(places))
    return {each: root / place for each, place in places.items()}


def _read(disk: Disk, root: Path) -> dict[str, str] | None:
    path = root / LAYOUT_FILE
    if not disk.is_file(path):
        return None
    try:
        found = msgspec.json.decode(disk.read_all(path), type=dict[str, str])
    except msgspec.MsgspecError as error:
        raise InvalidSetting("data", str(path), f"it names no brokers: {error}") from None
    for name, place in found.items():
        if place != TOP and Path(place).name != place:
            raise InvalidSetting("data", str(path), f"{name} has a place outside: {place}")
    return found


def _refuse_loss(root: Path, names: list[str], known: Mapping[str, str]) -> None:
    for name, place in known.items():
        if name not in names and _holds_messages(root / place):
            reason = (
                f"{root / place} has messages of {name}, which would not be served: use --brokers "
                f"{len(known)} for {', '.join(known)}. To do without {name}, make it read-only "
                f"(flintmq broker config set {name} brokerPermission=4), wait until every group "
                "has consumed its messages, stop, and move that directory away"
            )
            raise InvalidSetting("--brokers", str(len(names)), reason)


def _holds_messages(directory: Path) -> bool:
    """Whether a store has anything in its log; a log without records is empty, or begins so."""
    for path in (directory / COMMIT_LOG_DIRECTORY).glob("[0-9]*"):
        with path.open("rb") as log:
            if any(log.read(8)):
                return True
    return False
