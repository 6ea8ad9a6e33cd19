"""A data directory remembers its brokers: more are added, and none with messages is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flintmq.cli.brokers.broker_layout import LAYOUT_FILE, broker_directories, broker_names
from flintmq.errors import InvalidSetting


def filled(directory: Path) -> Path:
    """A store with something in its log."""
    log = directory / "commitlog"
    log.mkdir(parents=True)
    (log / f"{0:020d}").write_bytes(b"\0\0\0\x77\xda\xa3\x20\xa7")
    return directory


def emptied(directory: Path) -> Path:
    """A store whose log was made and never written to."""
    log = directory / "commitlog"
    log.mkdir(parents=True)
    (log / f"{0:020d}").write_bytes(bytes(64))
    return directory


def test_brokers_have_letters_or_numbers() -> None:
    assert broker_names("broker-a", 3) == ["broker-a", "broker-b", "broker-c"]
    assert broker_names("shop", 2) == ["shop-0", "shop-1"]
    assert broker_names("shop", 1) == ["shop"]


def test_one_broker_has_the_directory_itself_and_nothing_is_written_down(tmp_path: Path) -> None:
    assert broker_directories(tmp_path, "broker-a", 1) == {"broker-a": tmp_path}
    assert list(tmp_path.iterdir()) == []


def test_several_have_directories_below_it_and_more_are_added(tmp_path: Path) -> None:
    two = broker_directories(tmp_path, "broker-a", 2)
    three = broker_directories(tmp_path, "broker-a", 3)

    assert two == {name: tmp_path / name for name in ("broker-a", "broker-b")}
    assert three == {**two, "broker-c": tmp_path / "broker-c"}
    assert list(json.loads((tmp_path / LAYOUT_FILE).read_bytes())) == list(three)


def test_the_broker_of_a_directory_made_for_one_keeps_its_place(tmp_path: Path) -> None:
    filled(tmp_path)

    found = broker_directories(tmp_path, "broker-a", 2)
    again = broker_directories(tmp_path, "broker-a", 2)
    alone = broker_directories(tmp_path, "broker-a", 1)

    assert found == again == {"broker-a": tmp_path, "broker-b": tmp_path / "broker-b"}
    assert alone == {"broker-a": tmp_path / "."}


def test_fewer_are_refused_while_one_that_would_be_left_out_has_messages(tmp_path: Path) -> None:
    broker_directories(tmp_path, "broker-a", 3)
    filled(tmp_path / "broker-b")
    emptied(tmp_path / "broker-c")

    two = broker_directories(tmp_path, "broker-a", 2)  # broker-c has none
    with pytest.raises(InvalidSetting) as refused:
        broker_directories(tmp_path, "broker-a", 1)

    assert set(two) == {"broker-a", "broker-b"}
    assert f"{tmp_path / 'broker-b'} has messages of broker-b" in refused.value.reason
    assert "use --brokers 2 for broker-a, broker-b" in refused.value.reason
    assert "brokerPermission=4" in refused.value.reason


def test_one_that_is_left_of_several_keeps_its_name_and_place(tmp_path: Path) -> None:
    broker_directories(tmp_path, "shop", 2)
    filled(tmp_path / "shop-0")

    assert broker_directories(tmp_path, "shop", 1) == {"shop-0": tmp_path / "shop-0"}


def test_other_names_are_refused_like_fewer(tmp_path: Path) -> None:
    broker_directories(tmp_path, "shop", 2)
    filled(tmp_path / "shop-1")

    with pytest.raises(InvalidSetting, match="messages of shop-1"):
        broker_directories(tmp_path, "broker-a", 2)


@pytest.mark.parametrize("content", [b"[]", b'{"broker-a": "../elsewhere"}', b"{"])
def test_a_file_that_names_no_places_below_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LAYOUT_FILE).write_bytes(content)

    with pytest.raises(InvalidSetting, match=LAYOUT_FILE):
        broker_directories(tmp_path, "broker-a", 2)
