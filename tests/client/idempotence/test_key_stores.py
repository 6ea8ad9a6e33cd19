"""Every store keeps the states of keys, lets claims expire, and gives a key to one of many."""

from __future__ import annotations

import pickle
import sqlite3
import subprocess
import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from flintmq import KeyState, KeyStore, MemoryKeys, RedisKeys, SqliteKeys, SqlKeys
from flintmq.client.idempotence import sql_keys
from flintmq.errors import InvalidSetting, MissingExtra
from support.client import key_store_contract as contract
from support.client.key_store_contract import LONG_MS
from support.client.support import wait_for

Stores = Callable[[], KeyStore]


def connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=30, check_same_thread=False)


@pytest.fixture(params=["memory", "sqlite", "any database"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    """What opens the same keys again and again, as other members would."""
    if request.param == "memory":
        one = MemoryKeys()
        return lambda: one
    if request.param == "sqlite":
        return lambda: SqliteKeys(tmp_path / "seen.db")
    return lambda: SqlKeys(partial(connect, str(tmp_path / "other.db")), table="my_keys")


def test_a_key_is_unknown_then_in_progress_then_done(stores: Stores) -> None:
    contract.check_states(stores())


def test_a_claim_and_a_done_key_end_with_their_time(stores: Stores) -> None:
    contract.check_expiry(stores())


def test_a_late_owner_takes_nothing_and_its_work_counts(stores: Stores) -> None:
    contract.check_late_owner(stores())


def test_one_of_many_gets_a_key(stores: Stores) -> None:
    contract.check_race(stores)


def test_keys_in_a_file_outlast_the_store_and_are_seen_by_others(tmp_path: Path) -> None:
    first = SqliteKeys(tmp_path / "seen.db")
    first.claim(["a", "b"], "me", LONG_MS)
    first.finish(["a"], "me", LONG_MS)
    first.close()

    code = (
        f"import pickle; store = pickle.loads({pickle.dumps(first)!r}); "
        "print([state.name for state in store.claim(['a', 'b'], 'you', 60_000)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "['DONE', 'BUSY']"
    assert first.claim(["a"], "me", LONG_MS) == [KeyState.DONE]  # it opens itself again


def test_many_keys_are_claimed_at_once(tmp_path: Path) -> None:
    store = SqliteKeys(tmp_path / "seen.db")
    names = [f"key {number}" for number in range(250)]

    assert store.claim(names, "me", LONG_MS) == [KeyState.CLAIMED] * 250
    assert store.claim(names, "you", LONG_MS) == [KeyState.BUSY] * 250


def test_rows_past_their_time_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_keys, "PURGE_S", 0.0)
    store = SqliteKeys(tmp_path / "seen.db")
    store.finish(["old"], "me", 1)

    def rows() -> int:
        store.claim(["other"], "me", LONG_MS)
        with sqlite3.connect(tmp_path / "seen.db") as connection:
            (count,) = connection.execute("SELECT count(*) FROM flintmq_seen").fetchone()
        return int(count)

    wait_for(lambda: rows() == 1)


def test_a_store_opens_another_connection_after_an_error(tmp_path: Path) -> None:
    opened: list[sqlite3.Connection] = []

    def connect_and_count() -> sqlite3.Connection:
        opened.append(connect(str(tmp_path / "seen.db")))
        return opened[-1]

    store = SqlKeys(connect_and_count)
    store.claim(["a"], "me", LONG_MS)
    opened[0].close()  # as a server does
    with pytest.raises(sqlite3.ProgrammingError):
        store.claim(["a"], "you", LONG_MS)

    assert store.claim(["a"], "you", LONG_MS) == [KeyState.BUSY]
    assert len(opened) == 2


@pytest.mark.parametrize(
    ("style", "text"),
    [("format", "= %s AND owner = %s"), ("pyformat", "= %s"), ("numeric", "= :1 AND owner = :2")],
)
def test_each_style_of_parameters_is_spoken(
    style: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    driver = types.ModuleType("some_driver")
    driver.__dict__.update(paramstyle=style, Error=Exception, IntegrityError=KeyError)
    monkeypatch.setitem(sys.modules, "some_driver", driver)

    class Connection:
        __module__ = "some_driver.connections"
        rowcount = 1

        def cursor(self) -> Connection:
            return self

        def execute(self, sql: str, values: tuple[object, ...]) -> None:
            told.append(sql)
            assert sql.count("%s") + sql.count(":") == len(values)

        def fetchall(self) -> list[tuple[object, ...]]:
            return []

        def commit(self) -> None: ...

    SqlKeys(Connection).release(["a"], "me")

    assert text in told[-1]


def test_what_cannot_be_used_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSetting, match="plain name"):
        SqliteKeys("seen.db", table="a; DROP TABLE b")
    with pytest.raises(InvalidSetting, match="DB-API"):
        SqlKeys(object).claim(["a"], "me", LONG_MS)
    with pytest.raises(InvalidSetting, match="is one of qmark"):
        SqlKeys(object, paramstyle="mine")
    with pytest.raises(InvalidSetting, match="above 0"):
        MemoryKeys(0)
    with pytest.raises(InvalidSetting, match="do not share it"):
        pickle.dumps(MemoryKeys())
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtra, match=r"flintmq\[redis\]"):
        RedisKeys("redis://127.0.0.1").claim(["a"], "me", LONG_MS)


def test_memory_forgets_the_oldest_keys_first() -> None:
    store = MemoryKeys(keys_max=2)
    store.finish(["a", "b", "c"], "me", LONG_MS)

    assert store.claim(["c", "b"], "you", LONG_MS) == [KeyState.DONE, KeyState.DONE]
    assert store.claim(["a"], "you", LONG_MS) == [KeyState.CLAIMED]


def test_a_redis_store_shows_no_password() -> None:
    assert repr(RedisKeys("redis://me:hush@10.0.0.1:6379/0")) == "<RedisKeys 10.0.0.1:6379/0>"
