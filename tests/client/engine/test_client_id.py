"""Client ids are unlike each other, and message ids know the month they were made in."""

from __future__ import annotations

from datetime import datetime
from ipaddress import ip_address

from flintmq.client.engine.client_id import client_id, message_ids, own_ip
from flintmq.client.engine.lifecycle import process_id
from flintmq.model.message_id import month_of
from support.unique_ids import created_ms


def test_an_id_has_the_parts_rocketmq_gives_it() -> None:
    plain = client_id(ip="10.0.0.1")

    assert plain.startswith(f"10.0.0.1@{process_id()}#")
    assert client_id(ip="10.0.0.1", instance_name="i") == "10.0.0.1@i"
    assert (
        client_id(ip="10.0.0.1", instance_name="i", unit_name="u", stream=True)
        == "10.0.0.1@i@u@STREAM"
    )


def test_no_two_ids_are_alike() -> None:
    assert len({client_id() for _ in range(100)}) == 100


def test_the_own_address_is_one() -> None:
    assert ip_address(own_ip()).version == 4


def test_a_month_begins_and_ends_in_local_time() -> None:
    for year, month, following in ((2024, 2, (2024, 3)), (2024, 12, (2025, 1))):
        middle = datetime(year, month, 15, 12).astimezone()
        found = month_of(round(middle.timestamp() * 1000))

        start = datetime.fromtimestamp(found.start / 1000).astimezone()
        stop = datetime.fromtimestamp(found.stop / 1000).astimezone()
        assert (start.year, start.month, start.day, start.hour) == (year, month, 1, 0)
        assert (stop.year, stop.month, stop.day, stop.hour) == (*following, 1, 0)


def test_message_ids_tell_when_they_were_made_across_months() -> None:
    ids = message_ids()
    february = round(datetime(2024, 2, 10).astimezone().timestamp() * 1000)
    march = round(datetime(2024, 3, 10).astimezone().timestamp() * 1000)

    for now_ms in (february, march, february):
        start_ms = month_of(now_ms).start
        made = ids.make(now_ms)
        assert len(made) == 32
        assert (
            created_ms(made, now_ms=now_ms, month_start_ms=start_ms, previous_month_start_ms=0)
            == now_ms
        )
