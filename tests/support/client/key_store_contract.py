"""What every store of keys has to do, as checks that a test calls with a store of its kind."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from flintmq import KeyState, KeyStore
from support.client.support import wait_for

LONG_MS = 600_000
SHORT_MS = 50
"""Short enough to wait for, and longer than the calls of a check take."""

CLAIMED, BUSY, DONE = KeyState.CLAIMED, KeyState.BUSY, KeyState.DONE


def check_states(store: KeyStore) -> None:
    """Unknown, in progress, done; and released back to unknown."""
    assert store.claim(["a", "b"], "me", LONG_MS) == [CLAIMED, CLAIMED]
    assert store.claim(["a", "b", "c"], "you", LONG_MS) == [BUSY, BUSY, CLAIMED]
    store.finish(["a"], "me", LONG_MS)
    store.release(["b"], "me")
    assert store.claim(["a", "b"], "you", LONG_MS) == [DONE, CLAIMED]


def check_expiry(store: KeyStore) -> None:
    """A claim and a done key both end with their time."""
    assert store.claim(["crashed"], "me", SHORT_MS) == [CLAIMED]
    wait_for(lambda: store.claim(["crashed"], "you", LONG_MS) == [CLAIMED])
    store.claim(["old"], "me", LONG_MS)
    store.finish(["old"], "me", SHORT_MS)
    wait_for(lambda: store.claim(["old"], "you", LONG_MS) == [CLAIMED])


def check_late_owner(store: KeyStore) -> None:
    """Who comes too late takes nothing from the next owner, and what it has done counts."""
    store.claim(["late"], "me", SHORT_MS)
    wait_for(lambda: store.claim(["late"], "you", LONG_MS) == [CLAIMED])
    store.release(["late"], "me")
    assert store.claim(["late"], "she", LONG_MS) == [BUSY]
    store.finish(["late"], "me", LONG_MS)
    assert store.claim(["late"], "she", LONG_MS) == [DONE]
    store.finish(["never claimed"], "me", LONG_MS)
    assert store.claim(["never claimed"], "she", LONG_MS) == [DONE]


def check_race(store_of: Callable[[], KeyStore], threads: int = 8, keys: int = 20) -> None:
    """Of many who claim a key at once, one gets it."""
    names = [f"race-{number}" for number in range(keys)]
    won: Counter[str] = Counter()
    gate, lock = threading.Barrier(threads), threading.Lock()

    def run(owner: str) -> None:
        store = store_of()
        gate.wait()
        for name in names:
            if store.claim([name], owner, LONG_MS) == [CLAIMED]:
                with lock:
                    won[name] += 1

    racers = [threading.Thread(target=run, args=(f"racer {n}",)) for n in range(threads)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert won == Counter(names)
