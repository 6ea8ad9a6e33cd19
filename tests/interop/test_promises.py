"""What clients take for granted although no answer says it: routes are known when they ask.

A client that finds no route sends to the queues of TBW102, which the topic may not have, or waits
for half a minute before it looks again.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.interop.asked import beat, make_topic, route_answer, send
from support.interop.ours import Kind, Served

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def route_codes(
    served: Served, topic: Callable[[int], str], make: Callable[[int], None]
) -> list[int]:
    codes = []
    for number in range(50):
        make(number)
        codes.append(route_answer(served.namesrv, topic(number))["code"])
    return codes


def skip_where_not_awaited(served: Served) -> None:
    if served.kind is Kind.REAL_4_9:
        pytest.skip("4.9 tells the name server of such topics, but does not wait for its answer")


def test_the_name_server_knows_a_topic_once_its_making_is_answered(served: Served) -> None:
    def topic(number: int) -> str:
        return f"promised_made_{number}"

    codes = route_codes(served, topic, lambda number: make_topic(served.broker, topic(number), 1))

    assert codes == [0] * 50


def test_the_name_server_knows_a_topic_once_the_first_send_to_it_is_answered(
    served: Served,
) -> None:
    skip_where_not_awaited(served)

    def topic(number: int) -> str:
        return f"promised_sent_{number}"

    codes = route_codes(served, topic, lambda number: send(served.broker, topic(number)))

    assert codes == [0] * 50


def test_the_name_server_knows_a_retry_topic_once_the_first_heartbeat_is_answered(
    served: Served,
) -> None:
    skip_where_not_awaited(served)

    def group(number: int) -> str:
        return f"promised_{number}"

    codes = route_codes(
        served,
        lambda number: f"%RETRY%{group(number)}",
        lambda number: beat(served.broker, group(number), "TBW102"),
    )

    assert codes == [0] * 50
