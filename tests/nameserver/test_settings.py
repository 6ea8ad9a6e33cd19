"""Settings survive as RocketMQ's kvConfig.json, and a change that is not safe did not happen."""

from __future__ import annotations

import pytest

from flintmq.errors import DiskFailed, InvalidName, MalformedBody, Overloaded
from flintmq.nameserver import settings
from flintmq.nameserver.settings import Settings
from flintmq.protocol.bodies.common_bodies import KvTable

FILE = (
    b'{\n\t"configTable":{\n\t\t"ORDER_TOPIC_CONFIG":{\n\t\t\t"orders":"broker-a:4"\n\t\t}\n\t}\n}'
)
"""What RocketMQ writes."""


def test_names_and_values_nobody_has_are_refused() -> None:
    found = Settings()

    for namespace, key in (("x" * 2_000, "k"), ("n", "x" * 2_000)):
        with pytest.raises(InvalidName):
            found.put(namespace, key, "v")
    with pytest.raises(Overloaded, match="characters of a value"):
        found.put("n", "k", "v" * 70_000)

    assert found.namespace("n") is None


def test_what_was_put_is_found_and_what_was_deleted_is_not() -> None:
    kept = Settings()
    kept.put("n", "k", "v")
    kept.put("n", "k", "w")
    kept.put("n", "l", "x")
    kept.delete("n", "l")
    kept.delete("n", "never there")
    kept.delete("m", "k")

    assert kept.value("n", "k") == "w"
    assert kept.value("n", "l") is None
    assert kept.namespace("n") == KvTable(table={"k": "w"})
    assert kept.namespace("m") is None


def test_a_namespace_that_lost_its_last_key_is_still_there() -> None:
    kept = Settings()
    kept.put("n", "k", "v")

    kept.delete("n", "k")

    assert kept.namespace("n") == KvTable()


def test_every_change_is_saved_in_rocketmqs_form_and_read_back() -> None:
    saved: list[bytes] = []
    kept = Settings(None, saved.append)

    kept.put("ORDER_TOPIC_CONFIG", "orders", "broker-a:4")
    again = Settings(saved[-1], saved.append)
    again.delete("ORDER_TOPIC_CONFIG", "orders")

    assert saved[0] == FILE
    assert again.order_of("orders") is None
    assert Settings(saved[0]).order_of("orders") == "broker-a:4"
    assert Settings(saved[0]).order_table() == KvTable(table={"orders": "broker-a:4"})
    assert len(saved) == 2


@pytest.mark.parametrize("nothing", [None, b"", b" \n"])
def test_a_file_that_is_missing_or_empty_is_an_empty_table(nothing: bytes | None) -> None:
    assert Settings(nothing).namespace("n") is None


def test_a_broken_file_is_not_taken_for_an_empty_one() -> None:
    with pytest.raises(MalformedBody):
        Settings(b'{"configTable":[')


def test_a_change_that_cannot_be_saved_did_not_happen() -> None:
    def refuse(_: bytes) -> None:
        raise DiskFailed("kvConfig.json", "replace", "No space left on device")

    kept = Settings(FILE, refuse)

    with pytest.raises(DiskFailed):
        kept.put("n", "k", "v")
    with pytest.raises(DiskFailed):
        kept.delete("ORDER_TOPIC_CONFIG", "orders")

    assert kept.value("n", "k") is None
    assert kept.order_of("orders") == "broker-a:4"
    assert kept.changes == 0


def test_settings_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "SETTINGS_BYTES_MAX", 200)
    kept = Settings()
    kept.put("n", "k", "v")

    with pytest.raises(Overloaded, match="bytes of settings"):
        kept.put("n", "l", "v" * 200)

    assert kept.namespace("n") == KvTable(table={"k": "v"})
