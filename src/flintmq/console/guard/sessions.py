"""Who is signed in.  Sessions live in memory: a restart of the console ends them all.

A session has two random values: its key, which only the cookie carries, and its CSRF token, which
only forms carry.  Whoever makes a browser send the cookie cannot know the token.

Invariant: there are never more than `SESSIONS_MAX` sessions, and none lives longer than `LIFE_MS`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from hmac import compare_digest
from typing import Final

from flintmq.console.watching.cluster_view import ClusterView

SESSIONS_MAX: Final = 64
"""People at one console; the one that was idle longest makes room."""

IDLE_MS: Final = 60 * 60_000
"""A session that nobody used for an hour is over."""

LIFE_MS: Final = 12 * 60 * 60_000
"""A working day; then the person signs in again."""

FAILURES_MAX: Final = 10
FAILURE_WINDOW_MS: Final = 60_000
"""Wrong logins a minute, of all callers together; more are refused unread."""

RANDOM_BYTES: Final = 32


@dataclass(slots=True)
class Session:
    """One person at one browser.  ``cluster`` is the cluster as this person may see it."""

    key: str
    csrf: str
    person: str
    cluster: ClusterView
    started_ms: int
    used_ms: int

    def is_own_token(self, given: str) -> bool:
        return compare_digest(self.csrf.encode(), given.encode())


class Sessions:
    """The sessions of a console."""

    def __init__(
        self, clock: Callable[[], int], on_end: Callable[[Session], object] = lambda _session: None
    ) -> None:
        self._clock = clock
        self._on_end = on_end
        self._by_key: dict[str, Session] = {}
        self._failures: list[int] = []

    def __len__(self) -> int:
        return len(self._by_key)

    def open(self, person: str, cluster: ClusterView) -> Session:
        now_ms = self._clock()
        self._drop_old(now_ms)
        while len(self._by_key) >= SESSIONS_MAX:
            idlest = min(self._by_key.values(), key=lambda each: each.used_ms)
            self.end(idlest)
        key, csrf = secrets.token_urlsafe(RANDOM_BYTES), secrets.token_urlsafe(RANDOM_BYTES)
        session = Session(key, csrf, person, cluster, now_ms, now_ms)
        self._by_key[key] = session
        return session

    def find(self, key: str) -> Session | None:
        """The session of a cookie, if it is alive; it counts as used now."""
        now_ms = self._clock()
        self._drop_old(now_ms)
        session = self._by_key.get(key)
        if session is not None:
            session.used_ms = now_ms
        return session

    def is_alive(self, session: Session) -> bool:
        """Whether a session goes on; looking does not count as use."""
        self._drop_old(self._clock())
        return session.key in self._by_key

    def end(self, session: Session) -> None:
        if self._by_key.pop(session.key, None) is not None:
            self._on_end(session)

    def end_all(self) -> None:
        for each in list(self._by_key.values()):
            self.end(each)

    def may_try(self) -> bool:
        """Whether a login is looked at, after the wrong ones of the last minute."""
        now_ms = self._clock()
        self._failures = [at for at in self._failures if at > now_ms - FAILURE_WINDOW_MS]
        return len(self._failures) < FAILURES_MAX

    def count_failure(self) -> None:
        self._failures.append(self._clock())

    def _drop_old(self, now_ms: int) -> None:
        for each in list(self._by_key.values()):
            if now_ms - each.used_ms >= IDLE_MS or now_ms - each.started_ms >= LIFE_MS:
                self.end(each)
