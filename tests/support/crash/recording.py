"""A disk that remembers what it was told, and the states a crash could leave of it.

`RecordingDisk` does everything for real and notes each change, each sync and each
acknowledgement the workload marks.  `crash_states` then replays a prefix of those notes the
way a disk may after a power cut: what was synced is there; of what was not, any part may
be: nothing, everything, some writes without earlier ones, half a write, cut at 512 bytes
or 4 KiB.  Creations, renames and removals survive for sure only after their directory
was synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from flintmq.store.files.disk import Buffer, Disk

SECTORS = (512, 4096)


@dataclass(frozen=True, slots=True)
class Created:
    path: Path
    size_bytes: int
    content: bytes | None = field(default=None, repr=False)
    """What the file has for sure, if its name survives; known once the file was synced."""


@dataclass(frozen=True, slots=True)
class Resized:
    path: Path
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Wrote:
    path: Path
    at: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Replaced:
    path: Path
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Renamed:
    path: Path
    to: Path


@dataclass(frozen=True, slots=True)
class Removed:
    path: Path


@dataclass(frozen=True, slots=True)
class Synced:
    path: Path


@dataclass(frozen=True, slots=True)
class SyncedDirectory:
    path: Path


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The workload was told that this is safe."""

    what: object


Change = Created | Resized | Wrote | Replaced | Renamed | Removed
Note = Change | Synced | SyncedDirectory | Acknowledged


class RecordingDisk(Disk):
    """The real disk, with a notebook."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.notes: list[Note] = []
        self._all_synced = 0  # notes

    def acknowledge(self, what: object) -> None:
        self.notes.append(Acknowledged(what))

    def create(self, path: Path, size_bytes: int) -> None:
        super().create(path, size_bytes)
        self.notes.append(Created(path, size_bytes))

    def resize(self, path: Path, size_bytes: int) -> None:
        super().resize(path, size_bytes)
        self.notes.append(Resized(path, size_bytes))

    def write(self, path: Path, at: int, chunks: Sequence[Buffer]) -> None:
        super().write(path, at, chunks)
        self.notes.append(Wrote(path, at, b"".join(chunks)))

    def sync(self, path: Path) -> None:
        super().sync(path)
        self.note_sync(path)

    def note_sync(self, path: Path) -> None:
        self.notes.append(Synced(path))

    def replace(self, path: Path, content: bytes) -> None:
        # The content is synced before the rename, so the name holds the old or the new.
        notes = len(self.notes)
        super().replace(path, content)
        self.notes.insert(notes, Replaced(path, content))

    def rename(self, path: Path, to: Path) -> None:
        super().rename(path, to)
        self.notes.append(Renamed(path, to))

    def remove(self, path: Path) -> None:
        super().remove(path)
        self.notes.append(Removed(path))

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self.note_sync_directory(path)

    def note_sync_directory(self, path: Path) -> None:
        self.notes.append(SyncedDirectory(path))

    def sync_file_system(self) -> int | None:
        device = super().sync_file_system()
        if device is not None:
            self.note_sync_of_all()
        return device

    def note_sync_of_all(self) -> None:
        """All that changed is on disk now, one after the other."""
        changes = [note for note in self.notes[self._all_synced :] if isinstance(note, Change)]
        paths = dict.fromkeys(
            note.to if isinstance(note, Renamed) else note.path for note in changes
        )
        for path in paths:
            if path.exists():
                self.note_sync(path)
        for directory in dict.fromkeys(path.parent for path in paths):
            self.note_sync_directory(directory)
        self._all_synced = len(self.notes)


Files = dict[Path, bytearray]


@dataclass(slots=True)
class CrashState:
    """What a crash left, and what had been promised before it."""

    name: str
    files: Files
    acknowledged: list[object]

    def lay_out(self, old_root: Path, root: Path) -> None:
        """Write the files below ``root``."""
        for path, content in self.files.items():
            place = root / path.relative_to(old_root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def crash_states(notes: Sequence[Note], seed: int, per_point: int = 6) -> Iterator[CrashState]:
    """For every point in the notes, several states that a crash there could leave.

    The first two at each point are the plain ones, nothing and everything of what was not
    synced; the others are drawn by chance from ``seed``.
    """
    durable: Files = {}
    pending: list[Change] = []
    acknowledged: list[object] = []
    for point, note in enumerate(notes):
        if isinstance(note, Acknowledged):
            acknowledged.append(note.what)
        else:
            durable, pending = _settle(durable, pending, note)
        for variant in range(per_point):
            name = f"seed {seed}, after {point + 1} of {len(notes)} ({note!r}), variant {variant}"
            chance = Random(f"{seed}/{point}/{variant}")
            yield CrashState(name, _survivors(durable, pending, variant, chance), [*acknowledged])


def _settle(durable: Files, pending: list[Change], note: Note) -> tuple[Files, list[Change]]:
    """Note a change, or move what a sync makes safe from pending to durable."""
    if not isinstance(note, Synced | SyncedDirectory):
        assert not isinstance(note, Acknowledged)
        return durable, [*pending, note]
    is_safe = _is_safe_after(note)
    safe = [change for change in pending if is_safe(change)]
    left = [change for change in pending if not is_safe(change)]
    born = [c for c in left if isinstance(c, Created) and c.path == note.path]
    if born:  # its content is safe, its name is not
        content: Files = {}
        for change in (born[-1], *safe):
            _apply(content, change)
        made = Created(note.path, born[-1].size_bytes, bytes(content[note.path]))
        return durable, [made if change is born[-1] else change for change in left]
    durable = {path: bytearray(content) for path, content in durable.items()}
    for change in safe:
        _apply(durable, change)
        if isinstance(change, Removed):
            left = _without_older(left, pending, change)
    return durable, left


def _without_older(left: list[Change], pending: list[Change], removed: Removed) -> list[Change]:
    """Writes to a file that is gone for sure; a later file of that name has its own."""
    older = pending[: pending.index(removed)]
    return [
        change
        for change in left
        if not (change.path == removed.path and any(change is other for other in older))
    ]


def _is_safe_after(sync: Synced | SyncedDirectory) -> Callable[[Change], bool]:
    if isinstance(sync, Synced):
        return lambda change: isinstance(change, Wrote | Resized) and change.path == sync.path
    return lambda change: (
        not isinstance(change, Wrote | Resized) and change.path.parent == sync.path
    )


def _survivors(durable: Files, pending: list[Change], variant: int, chance: Random) -> Files:
    files = {path: bytearray(content) for path, content in durable.items()}
    if variant == 0:
        chosen: list[Change] = []
    elif variant == 1:
        chosen = pending
    elif variant == 2 and pending:
        chosen = [*pending[:-1], *_torn(pending[-1], chance)]
    else:
        chosen = [
            part for c in pending if chance.random() < 0.7 for part in _perhaps_torn(c, chance)
        ]
    for change in chosen:
        _apply(files, change)
    return files


def _perhaps_torn(change: Change, chance: Random) -> list[Change]:
    return _torn(change, chance) if chance.random() < 0.3 else [change]


def _torn(change: Change, chance: Random) -> list[Change]:
    """Some sectors of a write, or a new file without its size; nothing else can be torn."""
    if isinstance(change, Created) and change.content is None:
        return [Created(change.path, 0)]
    if not isinstance(change, Wrote):
        return [change]
    sector = chance.choice(SECTORS)
    parts: list[Change] = []
    at, stop = change.at, change.at + len(change.data)
    while at < stop:
        cut = min(stop, (at // sector + 1) * sector)
        if chance.random() < 0.5:
            parts.append(Wrote(change.path, at, change.data[at - change.at : cut - change.at]))
        at = cut
    return parts


def _apply(files: Files, change: Change) -> None:
    match change:
        case Created(path, size_bytes, content):
            files[path] = bytearray(size_bytes if content is None else content)
        case Wrote(path, at, data):
            # A write to a file whose name or size was lost is lost with it.
            if path in files and at + len(data) <= len(files[path]):
                files[path][at : at + len(data)] = data
        case Resized(path, size_bytes):
            if path in files:
                files[path].extend(bytes(max(0, size_bytes - len(files[path]))))
                del files[path][size_bytes:]
        case Replaced(path, data):
            files[path] = bytearray(data)
        case Renamed(path, to):
            if path in files:
                files[to] = files.pop(path)
        case Removed(path):
            files.pop(path, None)
