"""Settings are shown and changed under RocketMQ's names, as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.protocol.bodies.common_bodies import DataVersion, KvTable
from flintmq.protocol.bodies.java_properties import read_properties, write_properties
from flintmq.protocol.bodies.stats import BrokerStats
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import BrokerConfigAnswer, ViewBrokerStats
from support.broker.admin import done, make_topic, refused
from support.broker.world import SMALL_STORE, World, body_of, header_of

SHOW, CHANGE = RequestCode.GET_BROKER_CONFIG, RequestCode.UPDATE_BROKER_CONFIG
STATS = RequestCode.VIEW_BROKER_STATS_DATA


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


def shown(world: World) -> dict[str, str]:
    return read_properties(done(world, SHOW))


def version(world: World) -> DataVersion:
    header = header_of(world.ask(SHOW), BrokerConfigAnswer)
    return DataVersion.from_body(header.version.encode())


def test_settings_are_shown_by_their_names(world: World) -> None:
    found = shown(world)

    assert found["brokerName"] == "broker-a"
    assert found["brokerClusterName"] == "DefaultCluster"
    assert found["brokerIP1"] + ":" + found["listenPort"] == world.state.address
    assert found["flushDiskType"] == "ASYNC_FLUSH"
    assert "storePathRootDir" not in found


def test_settings_are_changed_and_the_change_is_shown(world: World) -> None:
    before = version(world)
    changes = {"longPollingEnable": "false", "transactionTimeOut": "1234"}

    done(world, CHANGE, None, write_properties(changes))

    assert (world.state.config.long_polling, world.state.config.transaction_timeout_ms) == (
        False,
        1_234,
    )
    assert changes.items() <= shown(world).items()
    assert version(world).counter == before.counter + 1


def test_topics_and_groups_are_made_by_themselves_only_while_that_is_allowed(world: World) -> None:
    forbidden = {"autoCreateTopicEnable": "false", "autoCreateSubscriptionGroup": "false"}
    allowed = dict.fromkeys(forbidden, "true")

    done(world, CHANGE, None, write_properties(forbidden))
    refused_code = world.send("made_by_a_send").code
    no_group = world.state.groups.find_or_create("made_by_a_pull", world.now_ms)
    done(world, CHANGE, None, write_properties(allowed))

    assert refused_code == ResponseCode.TOPIC_NOT_EXIST
    assert no_group is None
    assert world.send("made_by_a_send").code == 0
    assert world.state.groups.find_or_create("made_by_a_pull", world.now_ms) is not None


def test_what_is_as_it_was_is_no_change(world: World) -> None:
    before = version(world)

    done(world, CHANGE, None, b"longPollingEnable=true\n")
    done(world, CHANGE, None, b"")

    assert version(world) == before


@pytest.mark.parametrize(
    "key",
    [
        "storePathRootDir",
        "rocketmqHome",
        "brokerConfigPath",
        "configStorePath",
        "brokerName",
        "namesrvAddr",
        "aclEnable",
        "flushCommitLogTimed",
        "no such key",
        "x" * 10_000,
    ],
)
def test_keys_that_may_not_change_are_refused_with_all_others(world: World, key: str) -> None:
    before = world.state.config
    body = write_properties({"longPollingEnable": "false", key: "../x; y"})

    code, remark = refused(world, CHANGE, None, body)

    assert code == ResponseCode.NO_PERMISSION
    assert remark is not None
    assert remark.endswith("cannot be changed while the broker runs; nothing was changed")
    assert len(remark) < 200
    assert world.state.config is before


@pytest.mark.parametrize(
    "text",
    ["longPollingEnable=maybe", "brokerPermission=9", "transactionTimeOut=-1", "deleteWhen=24"],
)
def test_a_value_that_makes_no_sense_changes_nothing(world: World, text: str) -> None:
    before = world.state.config

    code, remark = refused(world, CHANGE, None, f"traceOn=false\n{text}\n".encode())

    assert code == ResponseCode.INVALID_PARAMETER
    assert remark is not None
    assert text.partition("=")[0] in remark
    assert world.state.config is before


def test_a_new_permission_is_told_to_the_name_servers_with_every_topic(world: World) -> None:
    before = world.state.topics.version

    done(world, CHANGE, None, b"brokerPermission=4\n")

    assert world.announced == [{topic.topic_name for topic in world.state.topics}]
    assert not world.state.topics.version.matches(before)
    assert not world.state.config.is_writable


def test_runtime_figures_are_a_table(world: World) -> None:
    table = KvTable.from_body(done(world, RequestCode.GET_BROKER_RUNTIME_INFO)).table

    assert table["brokerVersionDesc"] == "V5_3_3"


def test_one_counter_is_shown(world: World) -> None:
    make_topic(world, "T")
    world.send("T")
    header = ViewBrokerStats(stats_name="TOPIC_PUT_NUMS", stats_key="T")

    found = BrokerStats.from_body(done(world, STATS, header))

    assert found.stats_minute.sum == found.stats_hour.sum == found.stats_day.sum == 1


def test_a_counter_that_is_not_there_is_refused(world: World) -> None:
    header = ViewBrokerStats(stats_name="XX", stats_key="T")

    assert refused(world, STATS, header) == (1, "The stats <XX> <T> not exist")


def test_expired_files_go_at_any_hour_when_an_admin_says_so(tmp_path: Path) -> None:
    store = replace(SMALL_STORE, commit_log_file_bytes=4_096, message_bytes_max=1_024)
    with World(tmp_path, BrokerConfig(store=store)) as world:
        for _ in range(40):
            world.send("T", b"x" * 512)
        world.now_ms += 100 * 3_600_000

        done(world, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        assert world.state.log.extent.start_offset == 0
        done(world, RequestCode.DELETE_EXPIRED_COMMITLOG)

        assert world.state.log.extent.start_offset > 0
        assert world.state.log.min_offset("T", 0) > 0


def test_bodies_are_text_that_java_reads(world: World) -> None:
    body = body_of(world.ask(SHOW))

    assert body.isascii()
    assert all(b"=" in line for line in body.splitlines())
