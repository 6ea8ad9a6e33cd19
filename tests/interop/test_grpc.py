"""The official gRPC clients of RocketMQ 5 work with `flintmq serve --grpc`, with `flintmq proxy`
before a real broker, and with RocketMQ's own proxy before our broker.

Java and Go speak TLS here, as they do unless told otherwise, and are shown a certificate made at
the start; Python and Node speak plain, on the same port.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintmq.client.admin import Admin
from support.interop.grpcclients import Behind, GrpcKind, Proxied, make_names, play, proxied
from support.interop.skipping import skip_without
from support.interop.told import Told

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=list(Behind))
def proxy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'flintmq[dev]'")
    behind: Behind = request.param
    if behind is not Behind.OURS:
        skip_without("java", "mvn")
    with proxied(behind, tmp_path_factory.mktemp(behind)) as up:
        yield up


@pytest.fixture(scope="module", params=list(GrpcKind))
def kind(request: pytest.FixtureRequest, proxy: Proxied) -> GrpcKind:
    chosen: GrpcKind = request.param
    if proxy.behind is Behind.JAVA_PROXY and chosen is not GrpcKind.JAVA_5_2:
        pytest.skip("one client shows what RocketMQ's proxy makes of our broker")
    skip_without(*chosen.tools)
    return chosen


@pytest.fixture(scope="module")
def told(proxy: Proxied, kind: GrpcKind) -> Told:
    with Admin(namesrv=proxy.namesrv) as admin:
        make_names(admin, kind.prefix)
    return Told(play(kind, proxy.grpc, kind.prefix))


def test_a_push_consumer_gets_the_tags_it_wants(told: Told) -> None:
    got = told.of("normal", "got")

    assert len(told.of("normal", "sent")) == 10
    assert sorted(one["body"] for one in got) == ["m0", "m2", "m4", "m6", "m8"]
    for one in got:
        assert (one["tag"], one["keys"], one["attempt"]) == ("a", [f"k{one['body'][1:]}"], 1)
        assert one["properties"]["color"] == "blue"


def test_a_push_consumer_filters_by_sql(told: Told, kind: GrpcKind) -> None:
    if kind in (GrpcKind.PYTHON, GrpcKind.NODE):
        pytest.skip("the scenario is played by the Java and Go clients")

    assert sorted(told.bodies("sql", "got")) == ["m0", "m1", "m2"]


def test_a_simple_consumer_gets_a_message_again_that_it_shows_again(told: Told) -> None:
    got = told.of("simple", "got")

    assert sorted(one["body"] for one in got if one["attempt"] == 1) == ["s0", "s1", "s2", "s3"]
    assert [one["body"] for one in got if one["attempt"] == 2] == [got[0]["body"]]


def test_messages_of_a_group_come_in_order(told: Told) -> None:
    got = told.of("fifo", "got")

    assert [one["body"] for one in got] == [f"f{number}" for number in range(10)]
    assert {one["group"] for one in got} == {"one"}


def test_a_delayed_message_comes_in_time(told: Told) -> None:
    [got] = told.of("delay", "got")

    assert got["at"] - float(got["body"]) >= 2.9  # Python gives whole seconds


def test_a_delayed_message_is_taken_back(told: Told, kind: GrpcKind) -> None:
    if kind is not GrpcKind.PYTHON:
        pytest.skip("the scenario is played by the Python client")

    [sent], [recalled] = told.of("recall", "sent"), told.of("recall", "recalled")
    assert sent["id"] == recalled["id"]
    assert told.bodies("recall", "got") == ["kept"]


def test_transactions_are_committed_rolled_back_and_asked_about(told: Told) -> None:
    """A broker may ask once more about what was committed a moment ago, and deliver it again."""
    assert set(told.bodies("tx", "got")) == {"commit", "forgotten"}
    assert "forgotten" in told.bodies("tx", "check")


def test_a_message_that_always_fails_becomes_a_dead_letter(told: Told) -> None:
    got, [buried] = told.of("dead", "got"), told.of("dead", "buried")

    assert [one["attempt"] for one in got] == [1, 2]
    assert buried["body"] == "poison"
