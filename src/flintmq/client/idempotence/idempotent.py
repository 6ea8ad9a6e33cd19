"""`idempotent`: a listener that consumes each message once, across restarts and members.

    seen = SqliteKeys("seen.db")

    @app.listener("orders")
    @idempotent(seen, scope="billing", key=lambda message: message.keys[0])
    def bill(messages): ...

    new ─► claimed ──► the listener ──► consumed, or dead ──► done: repeats are dropped
              ▲                   └───► comes again ────────► released
              └── a repeat meanwhile, or after a crash until the claim expires: comes again later

What holds: a message whose key is done is not given to the listener; of several with one key at
the same time one is.  What does not: a process that dies after the listener's work and before the
store has the key does the work again, once the claim has expired.

A store that fails before the listener is called fails the delivery: its messages come again.  One
that fails afterwards is logged: the messages are consumed, and their claims expire.

Invariant: a message is dropped only if one with its key was consumed, or was a dead letter.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final, TypeAlias, TypeVar

from flintmq.client.idempotence.fresh_messages import Sorting, only_fresh
from flintmq.client.idempotence.key_store import KeyState, KeyStore
from flintmq.core.group.listener_results import Again, Listener, Outcome, Retry
from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.model import properties as names
from flintmq.model.delay_levels import level_of_delay
from flintmq.model.message import ReceivedMessage

log = logger(__name__)

L = TypeVar("L", bound=Listener)

KeyOf: TypeAlias = Callable[[ReceivedMessage], str | None]
"""The key of a message; a message with None is always passed on."""

TTL_S: Final = 7 * 24 * 3_600
"""How long a key is done: longer than brokers keep messages, which is three days by default."""

CLAIM_S: Final = 120
"""How long a key is in progress: longer than nearly every listener runs."""

KEY_CHARACTERS_MAX: Final = 200
"""Longer keys are stored as their SHA-256."""


class Idempotent:
    """What `idempotent` returns.  Safe for any number of threads and listeners."""

    def __init__(
        self, store: KeyStore, scope: str, key: KeyOf | None, ttl_s: float, claim_s: float
    ) -> None:
        _check(store, scope, key, ttl_s=ttl_s, claim_s=claim_s)
        self.store = store
        self.blocks = store.blocks
        self.dropped = 0
        """Messages that were not passed on, in this process."""
        self._scope = scope
        self._key = key or unique_id
        self._ttl_ms, self._claim_ms = round(ttl_s * 1000), round(claim_s * 1000)
        self._level = level_of_delay(claim_s)

    def __call__(self, listener: L) -> L:
        """Wrap a listener so that it gets no duplicates."""
        return only_fresh(listener, self)

    def claim(self, messages: Sequence[ReceivedMessage]) -> Sorting[str]:
        later = Retry(self._level, reason="a message with its key is being consumed")
        sorting = Sorting[str](later, uuid.uuid4().hex)
        keys = [self._key_of(message) for message in messages]
        asked = list(dict.fromkeys(key for key in keys if key is not None))
        found = self.store.claim(asked, sorting.owner, self._claim_ms) if asked else []
        states = dict(zip(asked, found, strict=True))
        for message, key in zip(messages, keys, strict=True):
            if key is None:
                sorting.add_fresh(message, None)
            elif states[key] is KeyState.DONE:
                self.dropped += 1
                sorting.add_dropped()
            elif states[key] is KeyState.BUSY:
                sorting.add_elsewhere()
            elif sorting.add_repeat(key):
                self.dropped += 1
            else:
                sorting.add_fresh(message, key)
        return sorting

    def settle(self, sorting: Sorting[str], outcomes: Sequence[Outcome]) -> None:
        done: list[str] = []
        again: list[str] = []
        for key, outcome in zip(sorting.keys, outcomes, strict=True):
            if key is not None:
                (again if isinstance(outcome, Again) else done).append(key)
        try:
            if again:
                self.store.release(again, sorting.owner)
            if done:
                self.store.finish(done, sorting.owner, self._ttl_ms)
        except Exception:  # what the driver of a database raises
            count = len(done) + len(again)
            log.exception("%d keys of %s could not be stored: repeats may pass", count, self._scope)

    def _key_of(self, message: ReceivedMessage) -> str | None:
        key: object = self._key(message)
        if key is None:
            return None
        if not isinstance(key, str):
            reason = f"the key of {message.message_id} is text, not {type(key).__name__}"
            raise InvalidSetting("key", repr(key)[:80], reason)
        full = f"{self._scope}/{key}"
        return full if len(full) <= KEY_CHARACTERS_MAX else sha256(full.encode()).hexdigest()


def idempotent(
    store: KeyStore,
    *,
    scope: str,
    key: KeyOf | None = None,
    ttl_s: float = TTL_S,
    claim_s: float = CLAIM_S,
) -> Idempotent:
    """A decorator for listeners, plain or ``async def``, on threads, asyncio and Spark.

    Args:
        store: Where keys are kept: `MemoryKeys`, `SqliteKeys`, `SqlKeys`, `RedisKeys`, or a
            `KeyStore` of your own.
        scope: Whose keys they are.  Listeners with different work need different scopes, or one
            would drop what only the other has consumed.  The name of the group is a good one.
        key: The key of a message.  Without it, the unique id that its producer gave it, which
            repeats of the broker and of the producer share.  A message that the program sends
            twice has two ids: use a key of its own, such as an order number.
        ttl_s: How long a consumed key is remembered.
        claim_s: How long a key stays in progress.  Give more than the listener takes at most.
            After a crash a message waits so long.
    """
    return Idempotent(store, scope, key, ttl_s, claim_s)


def unique_id(message: ReceivedMessage) -> str:
    """The id that a message has from its producer, and keeps when it is redelivered."""
    properties = message.properties
    origin = properties.get(names.UNIQ_KEY) or properties.get(names.ORIGIN_MESSAGE_ID)
    return origin or message.offset_message_id


def _check(store: object, scope: object, key: object, **seconds: object) -> None:
    if not hasattr(store, "claim"):
        raise InvalidSetting("store", repr(store)[:80], "give a store, such as SqliteKeys")
    if not isinstance(scope, str) or not scope:
        raise InvalidSetting("scope", str(scope), "give a text, such as the name of the group")
    if key is not None and not callable(key):
        raise InvalidSetting("key", repr(key)[:80], "give a function of a message")
    for name, given in seconds.items():
        if not isinstance(given, int | float) or given <= 0:
            raise InvalidSetting(name, str(given), "give a number of seconds above 0")
