"""A client starts only with a subscription that the broker would serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.protocol.bodies.client import CheckClientConfig
from flintmq.protocol.codes import RequestCode
from support.broker.heartbeats import wants
from support.broker.world import SMALL_STORE, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


def check(world: World, text: str, kind: str = "SQL92") -> Answer:
    subscription = msgspec.structs.replace(wants("T", text), expression_type=kind)
    body = CheckClientConfig(client_id="c", group="G", subscription_data=subscription).to_body()
    answer = world.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body)
    assert answer is not None
    return answer


@pytest.mark.parametrize(
    ("text", "kind"), [("a > 5 AND b = 'x'", "SQL92"), ("A || B", "TAG"), ("a >", "")]
)
def test_a_good_subscription_is_taken(world: World, text: str, kind: str) -> None:
    assert check(world, text, kind) == Answer()


@pytest.mark.parametrize(("text", "part"), [("a > '5'", "'5'"), ("a >", "a >"), ("", "")])
def test_an_expression_that_does_not_compile_is_refused(world: World, text: str, part: str) -> None:
    answer = check(world, text)

    assert answer.code == 23
    assert answer.remark
    assert part in answer.remark


def test_an_unknown_kind_of_expression_is_refused(world: World) -> None:
    assert check(world, "a > 5", "XPATH").code == 23


def test_without_property_filters_only_tags_are_taken(tmp_path: Path) -> None:
    with World(tmp_path, BrokerConfig(store=SMALL_STORE, property_filter=False)) as world:
        refused = check(world, "a > 5")
        taken = check(world, "A", "TAG")

    remark = "The broker does not support consumer to filter message by SQL92"
    assert refused == Answer(1, remark=remark)
    assert taken == Answer()


def test_nothing_to_check_is_fine_and_nonsense_is_not(world: World) -> None:
    empty = world.ask(RequestCode.CHECK_CLIENT_CONFIG)
    broken = world.ask(RequestCode.CHECK_CLIENT_CONFIG, None, b"{")

    assert empty == Answer()
    assert broken is not None
    assert broken.code == 1
