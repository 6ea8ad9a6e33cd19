"""The small JSON files of a store: topics, groups, offsets, filters.

A table is replaced as a whole.  First what it held goes to the same name with ``.bak``,
then the new content takes its place; each step happens or does not.  Reading takes the
``.bak`` when the file is missing, empty or broken, as a Java broker does.  What cannot be
read is never copied over what can.  Fields that only a newer release knows are kept.

When there is a broken file and nothing to fall back to, that is `StoreRefused`: a broker
that starts without its topics and offsets would do more harm than one that does not start.

Invariant: at every moment one of the two files has a table that was saved.
"""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from flintmq.errors import MalformedBody, StoreRefused
from flintmq.protocol import fastjson
from flintmq.protocol.bodies.body import FILE_BYTES_MAX, Body, wire_fields
from flintmq.protocol.bodies.group import FilterTable, GroupTable
from flintmq.protocol.bodies.offset import (
    ConsumerOffsets,
    DelayOffsets,
    LightOffsets,
    TimerPositions,
)
from flintmq.protocol.bodies.pop import RequestModes
from flintmq.protocol.bodies.replica import SavedRole
from flintmq.protocol.bodies.topic import TopicTable
from flintmq.protocol.pop.order_bodies import OrderedPops
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import CONFIG_DIRECTORY

T = TypeVar("T", bound=Body)

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Table(Generic[T]):
    """One file and its backup."""

    def __init__(self, disk: Disk, path: Path, kind: type[T]) -> None:
        self._disk = disk
        self._path = path
        self._backup = path.with_name(path.name + ".bak")
        self._kind = kind
        self._good: bytes | None = None  # what was read or saved last
        self._is_in_place = False  # whether that is in the file itself, or only in the backup
        self._unknown: dict[str, object] = {}
        self._memo = fastjson.Memo()  # entries are frozen: those that did not change stay written

    def load(self) -> T | None:
        """The table, or nothing when there is none yet.  Reads only."""
        self._good, self._is_in_place = None, False
        broken: MalformedBody | None = None
        for path in (self._path, self._backup):
            content = self._disk.read_all(path) if self._disk.is_file(path) else b""
            if not content.strip():
                continue
            try:
                table = self._kind.from_file(content)
                self._unknown = _unknown_members(content, self._kind)
            except MalformedBody as error:
                broken = broken or error
                continue
            self._good, self._is_in_place = content, path == self._path
            return table
        if broken is None:
            return None
        reason = f"cannot be read and has no backup ({broken}); remove it to start with none"
        raise StoreRefused(str(self._path), reason)

    def save(self, table: T) -> None:
        """Replace the table; nothing is written when nothing changed."""
        content = self._content(table)
        if self._is_in_place and content == self._good:
            return
        self._disk.make_directory(self._path.parent)
        if self._good is not None:
            self._disk.replace(self._backup, self._good)
        self._disk.replace(self._path, content)
        self._good, self._is_in_place = content, True

    def _content(self, table: T) -> bytes:
        members = sorted([*wire_fields(table), *self._unknown.items()], key=itemgetter(0))
        return fastjson.write(
            table,
            lambda value: members if value is table else wire_fields(value),
            pretty=True,
            memo=self._memo,
        )


def _unknown_members(content: bytes, kind: type[Body]) -> dict[str, object]:
    """What stands in a file beside the fields of its kind."""
    members = fastjson.read(
        content,
        _MEMBERS,
        kind.__name__,
        limit_bytes=FILE_BYTES_MAX,
        rewrite_bytes_max=FILE_BYTES_MAX,
    )
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    return {name: msgspec.json.decode(members[name]) for name in members.keys() - known}


class Tables:
    """The tables every broker has, and two that only ours has."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        config = directory / CONFIG_DIRECTORY
        self.disk = disk
        self.directory = directory
        self.topics = Table(disk, config / "topics.json", TopicTable)
        self.groups = Table(disk, config / "subscriptionGroup.json", GroupTable)
        self.consumer_offsets = Table(disk, config / "consumerOffset.json", ConsumerOffsets)
        self.light_offsets = Table(disk, config / "lmqConsumerOffset.json", LightOffsets)
        self.delay_offsets = Table(disk, config / "delayOffset.json", DelayOffsets)
        self.filters = Table(disk, config / "consumerFilter.json", FilterTable)
        self.ordered_pops = Table(disk, config / "consumerOrderInfo.json", OrderedPops)
        self.request_modes = Table(disk, config / "messageRequestMode.json", RequestModes)
        self.timers = Table(disk, config / "flintmqTimers.json", TimerPositions)
        self.role = Table(disk, config / "flintmqRole.json", SavedRole)
