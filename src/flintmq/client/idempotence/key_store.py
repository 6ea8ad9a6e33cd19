"""Where keys of messages are kept: the interface, and a store in memory.

    unknown ──claim──► in progress ──finish──► done ──ttl──► unknown
                           │ ▲
                 release ──┘ └── claim of another, once the claim has expired

A claim expires, so that a key whose process crashed is claimed again.  A store is used by many
threads, and all but `MemoryKeys` by many processes.

Invariant: of all who claim a key at the same time, one gets it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from enum import Enum
from typing import Final, NoReturn, Protocol

from flintmq.errors import InvalidSetting

KEYS_MAX: Final = 1_000_000
"""Keys that a store in memory keeps unless told otherwise: about 200 MB."""


class KeyState(Enum):
    """What a store says of a key that somebody wants to claim."""

    CLAIMED = "claimed"
    """It is the caller's now."""
    BUSY = "busy"
    """Somebody has claimed it and not finished."""
    DONE = "done"
    """Its message was consumed."""


class KeyStore(Protocol):
    """Remembers keys.  ``owner`` is a text that no other claim has."""

    blocks: bool
    """Whether a call may wait for a disk or a server."""

    def claim(self, keys: Sequence[str], owner: str, claim_ms: int) -> list[KeyState]:
        """Claim those of the keys that are free, for so long; the state of each."""
        ...

    def finish(self, keys: Sequence[str], owner: str, ttl_ms: int) -> None:
        """The messages of these keys are consumed: remember them for so long."""
        ...

    def release(self, keys: Sequence[str], owner: str) -> None:
        """The messages of these keys are redelivered: forget the claims of this owner."""
        ...

    def close(self) -> None:
        """Close connections.  A store that is used again opens them again."""
        ...


class MemoryKeys:
    """Keys in the memory of this process, lost at a restart.

    It keeps ``keys_max`` keys, and forgets the oldest first.
    """

    blocks = False

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        if keys_max < 1:
            raise InvalidSetting("keys_max", str(keys_max), "give a number above 0")
        self._keys_max = keys_max
        self._known: OrderedDict[str, tuple[str | None, int]] = OrderedDict()
        self._lock = threading.Lock()

    def claim(self, keys: Sequence[str], owner: str, claim_ms: int) -> list[KeyState]:
        now_ms = _monotonic_ms()
        with self._lock:
            return [self._claim(key, owner, now_ms, now_ms + claim_ms) for key in keys]

    def finish(self, keys: Sequence[str], owner: str, ttl_ms: int) -> None:  # noqa: ARG002  # all stores have it
        until_ms = _monotonic_ms() + ttl_ms
        with self._lock:
            for key in keys:
                self._keep(key, None, until_ms)

    def release(self, keys: Sequence[str], owner: str) -> None:
        with self._lock:
            for key in keys:
                if self._known.get(key, ("", 0))[0] == owner:
                    del self._known[key]

    def close(self) -> None:
        """Nothing is open."""

    def _claim(self, key: str, owner: str, now_ms: int, until_ms: int) -> KeyState:
        found = self._known.get(key)
        if found is not None and found[1] > now_ms:
            return KeyState.DONE if found[0] is None else KeyState.BUSY
        self._keep(key, owner, until_ms)
        return KeyState.CLAIMED

    def _keep(self, key: str, owner: str | None, until_ms: int) -> None:
        self._known[key] = owner, until_ms
        self._known.move_to_end(key)
        while len(self._known) > self._keys_max:
            self._known.popitem(last=False)

    def __reduce__(self) -> NoReturn:
        reason = "other processes do not share it; use SqliteKeys, SqlKeys or RedisKeys on Spark"
        raise InvalidSetting("store", "MemoryKeys", reason)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
