"""Keys in a table of a database: any that has a driver with Python's DB-API 2.0, or SQLite.

    CREATE TABLE flintmq_seen (seen_key VARCHAR(255) PRIMARY KEY, owner VARCHAR(64),
                               is_done INTEGER, until_ms BIGINT)

The table is made when it is not there.  Rows past their time are deleted now and then.  Times are
those of this machine's clock: members whose clocks differ claim expired keys by so much sooner or
later.  One connection serves all threads of a process, one after the other.

Refused: drivers that do not say their ``paramstyle``, unless it is given.

Invariant: who gets a key is decided by the primary key of the table, or by an UPDATE that finds
the row as it was.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

from flintmq.client.engine.lifecycle import generation
from flintmq.client.idempotence.key_store import KeyState
from flintmq.errors import InvalidSetting
from flintmq.net.clock import wall_ms

TABLE: Final = "flintmq_seen"

PURGE_S: Final = 60.0
"""How often rows past their time are deleted."""

KEYS_ASKED_MAX: Final = 100
"""Keys in one query: some databases allow few parameters."""

SQLITE_WAIT_S: Final = 30.0
"""How long SQLite waits for another process that writes."""

_PLACEHOLDERS: Final = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{}"}

T = TypeVar("T")


class SqlKeys:
    """Keys in the database that ``connect`` opens a connection to.

    ``SqlKeys(partial(psycopg.connect, "dbname=shop"))``.  It is called where the store is first
    used, in a task of Spark too, and again after an error.
    """

    blocks = True

    _connection: Any
    _errors: Any  # the module of the driver
    _mark: str
    _born: int
    _purged_s: float
    _lock: threading.Lock

    def __init__(
        self, connect: Callable[[], Any], *, table: str = TABLE, paramstyle: str | None = None
    ) -> None:
        if not re.fullmatch(r"[A-Za-z_][\w.]*", table):
            raise InvalidSetting("table", table, "give a plain name")
        if paramstyle is not None and paramstyle not in _PLACEHOLDERS:
            reason = f"is one of {', '.join(_PLACEHOLDERS)}"
            raise InvalidSetting("paramstyle", paramstyle, reason)
        self._connect = connect
        self._table = table
        self._style = paramstyle
        self._forget()

    def claim(self, keys: Sequence[str], owner: str, claim_ms: int) -> list[KeyState]:
        now_ms = wall_ms()
        claim = partial(self._claim, keys, owner, now_ms, now_ms + claim_ms)
        return self._run(claim)

    def finish(self, keys: Sequence[str], owner: str, ttl_ms: int) -> None:
        until_ms = wall_ms() + ttl_ms
        self._run(partial(self._finish, keys, owner, until_ms))

    def release(self, keys: Sequence[str], owner: str) -> None:
        sql = "DELETE FROM {} WHERE seen_key = ? AND owner = ? AND is_done = 0"
        self._run(lambda: [self._write(sql, key, owner) for key in keys])

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and self._born == generation():
                connection.close()

    # Inside

    def _claim(self, keys: Sequence[str], owner: str, now_ms: int, until_ms: int) -> list[KeyState]:
        known = self._known(keys)
        return [self._claim_one(key, known.get(key), owner, now_ms, until_ms) for key in keys]

    def _claim_one(
        self, key: str, row: tuple[int, int] | None, owner: str, now_ms: int, until_ms: int
    ) -> KeyState:
        if row is not None:
            is_done, row_until_ms = row
            if row_until_ms > now_ms:
                return KeyState.DONE if is_done else KeyState.BUSY
            taken = self._write(
                "UPDATE {} SET owner = ?, is_done = 0, until_ms = ? "
                "WHERE seen_key = ? AND until_ms = ?",
                owner,
                until_ms,
                key,
                row_until_ms,
            )
            return KeyState.CLAIMED if taken else KeyState.BUSY
        is_ours = self._insert(key, owner, 0, until_ms)
        return KeyState.CLAIMED if is_ours else KeyState.BUSY

    def _finish(self, keys: Sequence[str], owner: str, until_ms: int) -> None:
        sql = "UPDATE {} SET owner = ?, is_done = 1, until_ms = ? WHERE seen_key = ?"
        for key in keys:
            if not self._write(sql, owner, until_ms, key):  # its claim has expired, and is deleted
                self._insert(key, owner, 1, until_ms)

    def _insert(self, key: str, owner: str, is_done: int, until_ms: int) -> bool:
        """Whether there was no such key."""
        sql = "INSERT INTO {} (seen_key, owner, is_done, until_ms) VALUES (?, ?, ?, ?)"
        try:
            self._write(sql, key, owner, is_done, until_ms)
        except self._errors.IntegrityError:
            self._connection.rollback()
            return False
        return True

    def _known(self, keys: Sequence[str]) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for start in range(0, len(keys), KEYS_ASKED_MAX):
            some = keys[start : start + KEYS_ASKED_MAX]
            marks = ", ".join("?" * len(some))
            sql = f"SELECT seen_key, is_done, until_ms FROM {{}} WHERE seen_key IN ({marks})"  # noqa: S608  # marks only
            for key, is_done, until_ms in self._execute(sql, some).fetchall():
                found[key] = int(is_done), int(until_ms)
        self._connection.commit()
        return found

    def _write(self, sql: str, *values: object) -> int:
        """Execute and commit; how many rows it changed."""
        count = self._execute(sql, values).rowcount
        self._connection.commit()
        return int(count)

    def _execute(self, sql: str, values: Iterable[object] = ()) -> Any:
        pieces = sql.format(self._table).split("?")
        marks = (self._mark.format(number) for number in range(1, len(pieces)))
        text = "".join(part for pair in zip(pieces, [*marks, ""], strict=True) for part in pair)
        cursor = self._connection.cursor()
        cursor.execute(text, tuple(values))
        return cursor

    def _run(self, work: Callable[[], T]) -> T:
        with self._lock:
            try:
                self._open()
                return work()
            except BaseException:
                connection, self._connection = self._connection, None
                if connection is not None:
                    with suppress(Exception):  # it is broken, and another one is opened next time
                        connection.close()
                raise

    def _open(self) -> None:
        if self._connection is None or self._born != generation():
            self._connection = self._connect()
            self._born = generation()
            self._errors = _module_of(self._connection)
            style = self._style or getattr(self._errors, "paramstyle", None)
            if style not in _PLACEHOLDERS:
                known = ", ".join(_PLACEHOLDERS)
                raise InvalidSetting("paramstyle", str(style), f"give paramstyle=, one of {known}")
            self._mark = _PLACEHOLDERS[style]
            self._make_table()
        if monotonic() - self._purged_s >= PURGE_S:
            self._purged_s = monotonic()
            self._write("DELETE FROM {} WHERE until_ms < ?", wall_ms())

    def _make_table(self) -> None:
        if self._has_table():
            return
        try:
            self._execute(
                "CREATE TABLE {} (seen_key VARCHAR(255) PRIMARY KEY, owner VARCHAR(64), "
                "is_done INTEGER NOT NULL, until_ms BIGINT NOT NULL)"
            )
            self._connection.commit()
        except self._errors.Error:
            self._connection.rollback()
            if not self._has_table():  # else another process was quicker
                raise

    def _has_table(self) -> bool:
        try:
            self._execute("SELECT 1 FROM {} WHERE 1 = 0").fetchall()
        except self._errors.Error:
            self._connection.rollback()
            return False
        self._connection.commit()
        return True

    def _forget(self) -> None:
        self._connection = None
        self._errors = None
        self._mark = ""
        self._born = -1
        self._purged_s = float("-inf")
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_connect": self._connect, "_table": self._table, "_style": self._style}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()


class SqliteKeys(SqlKeys):
    """Keys in a file, for the processes of one machine."""

    def __init__(self, path: str | Path, *, table: str = TABLE) -> None:
        self.path = str(Path(path).expanduser().absolute())
        super().__init__(partial(_open_sqlite, self.path), table=table)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "path": self.path}

    def __repr__(self) -> str:
        return f"<SqliteKeys {self.path}>"


def _open_sqlite(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=SQLITE_WAIT_S, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


def _module_of(connection: object) -> Any:
    """The module of a driver: its errors and its ``paramstyle`` are there."""
    name = type(connection).__module__
    while name:
        module = sys.modules.get(name)
        if hasattr(module, "IntegrityError") and hasattr(module, "paramstyle"):
            return module
        name = name.rpartition(".")[0]
    kind = type(connection).__name__
    raise InvalidSetting("connect", kind, "gives no connection of a DB-API 2.0 driver")
