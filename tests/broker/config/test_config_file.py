"""broker.conf is read under RocketMQ's names; what it asks for is done, warned of or refused."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.config.config_file import (
    ELSEWHERE,
    ONLY,
    SETTINGS,
    UNUSED,
    BrokerSettings,
    changed_config,
    read_broker_conf,
    settings_texts,
)
from flintmq.errors import InvalidSetting
from flintmq.model.broker_role import BrokerRole
from flintmq.net.address import Address
from flintmq.protocol.bodies.java_properties import write_properties
from flintmq.store.files.store_config import Flush, StoreConfig

EXAMPLE = b"""
# the file that comes with RocketMQ, and a little more
brokerClusterName = DefaultCluster
brokerName = broker-x
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
brokerIP1=10.0.0.9
listenPort=10921
storePathRootDir=/var/store
storePathCommitLog=/var/store/commitlog
messageDelayLevel=1s 2m 3h
diskMaxUsedSpaceRatio=88
"""

ODD_VALUES = {
    "brokerName": "broker-x",
    "brokerClusterName": "c1",
    "brokerId": "0",
    "brokers": "2",
    "brokerRole": "SYNC_MASTER",
    "haMasterAddress": "10.0.0.1:10912",
    "haAllowedSlaves": "10.0.0.2/32,fd00::/8",
    "inSyncReplicas": "3",
    "minInSyncReplicas": "2",
    "brokerIP1": "fd00::1",
    "bindAddress": "0.0.0.0",
    "namesrvAddr": "10.0.0.1:9876;[fd00::1]:9876",
    "regionId": "there",
    "registerNameServerPeriod": "20000",
    "brokerPermission": "4",
    "metricsExporterType": "PROM",
    "metricsPromExporterHost": "fd00::2",
    "metricsLabel": "dc:lab,rack:7",
    "messageDelayLevel": "1s 90s 5m 2h 3d",
    "storePathRootDir": "/var/store",
    "flushDiskType": "ASYNC_FLUSH",
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "6000",
    "mapperFileSizeBatchConsumeQueue": "4600",
    "mappedFileSizeConsumeQueueExt": "4096",
    "deleteWhen": "23",
    "quotas": "account:alice send 10/s 1MiB/s; group:* consume 5B/s",
    "partialFrameBytesMax": "33554432",
    "unreadBytesMax": "33554432",
    "unreadBytesPerConnectionMax": "33554432",
    "diskMaxUsedSpaceRatio": "60",
    "accessMessageInMemoryMaxRatio": "7",
    "popFromRetryProbability": "7",
    "reviveQueueNum": "7",
    "defaultMessageRequestMode": "POP",
}
"""A value for each key whose kind alone does not tell one."""


SECRETS = {
    "initAuthenticationUser": '{"username":"somebody","password":"hidden12"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"somebody","secretKey":"hidden12"}',
}


def a_value_of(key: str) -> str:
    """Something other than the default, as the file would say it."""
    shown = settings_texts(BrokerSettings()).get(key)
    if key in ODD_VALUES:
        return ODD_VALUES[key]
    if shown in ("true", "false"):
        return "false" if shown == "true" else "true"
    return "1234"


def test_the_example_of_rocketmq_is_read() -> None:
    settings, warnings = read_broker_conf(EXAMPLE)

    assert warnings == []
    assert settings.config.broker_name == "broker-x"
    assert settings.config.retain_hour == 4
    assert settings.config.store.retention_hours == 48
    assert settings.config.store.flush is Flush.ASYNC
    assert settings.config.store.delay_levels_ms == (1_000, 120_000, 10_800_000)
    assert settings.namesrv == (Address("10.0.0.1", 9876), Address("10.0.0.2", 9876))
    assert (settings.advertise, settings.listen_port) == ("10.0.0.9", 10921)
    assert settings.directory == Path("/var/store")


def test_an_empty_file_says_nothing() -> None:
    settings, warnings = read_broker_conf(b"")

    assert settings == BrokerSettings()
    assert warnings == []


def test_what_the_file_does_not_say_stays() -> None:
    config = BrokerConfig(broker_name="b", store=StoreConfig(flush=Flush.ASYNC))
    base = BrokerSettings(config=config)

    settings, _ = read_broker_conf(b"fileReservedTime=1\nregionId=eu", base)

    assert settings.config.broker_name == "b"
    assert settings.config.store.flush is Flush.ASYNC
    assert settings.config.store.retention_hours == 1


@pytest.mark.parametrize("key", sorted(SETTINGS.keys() - SECRETS.keys()))
def test_every_setting_is_shown_as_it_was_read(key: str) -> None:
    text = a_value_of(key)

    settings, warnings = read_broker_conf(write_properties({key: text}))

    assert warnings == []
    assert settings_texts(settings)[key] == text
    if key != "brokerId":
        assert settings != BrokerSettings()


@pytest.mark.parametrize("key", SECRETS)
def test_a_secret_is_read_and_never_shown(key: str) -> None:
    settings, _ = read_broker_conf(write_properties({key: SECRETS[key]}))

    assert ("somebody", "hidden12") in (settings.first_user, settings.inner)
    assert settings_texts(settings)[key] == "******"
    assert "hidden12" not in repr(settings)


def test_the_defaults_are_shown_and_read_back_the_same() -> None:
    shown = settings_texts(BrokerSettings())

    settings, warnings = read_broker_conf(write_properties(shown))

    assert settings == BrokerSettings()
    assert warnings == []
    assert list(shown) == sorted(shown)


def test_no_two_settings_are_one_field() -> None:
    paths = [setting.path for setting in SETTINGS.values()]

    assert len(paths) == len(set(paths))
    assert not SETTINGS.keys() & (ONLY.keys() | ELSEWHERE.keys() | UNUSED)


def test_a_wrong_name_is_told_with_the_nearest_right_one() -> None:
    _, warnings = read_broker_conf(b"autoCreateTopicEnabled=false\nbrokername=x")

    assert len(warnings) == 2
    assert "did you mean autoCreateTopicEnable?" in warnings[0]
    assert "did you mean brokerName?" in warnings[1]


@pytest.mark.parametrize("key", ["sendMessageThreadPoolNums", "brokerIP2", "frobnicate"])
def test_a_name_that_means_nothing_here_is_told_alone(key: str) -> None:
    settings, warnings = read_broker_conf(f"{key}=16".encode())

    assert warnings == [f"{key} is not used by this broker; it is ignored"]
    assert settings == BrokerSettings()


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("listenPort", "70000", "0 to 65535"),
        ("listenPort", "-1", "0 to 65535"),
        ("listenPort", "", "0 to 65535"),
        ("autoCreateTopicEnable", "yes", "true or false"),
        ("flushDiskType", "sync", "SYNC_FLUSH or ASYNC_FLUSH"),
        ("messageDelayLevel", "1s 5x", "s, m, h, d"),
        ("messageDelayLevel", "", "at least one"),
        ("brokerIP1", "http://x", "without a scheme"),
        ("namesrvAddr", "10.0.0.1", "give host:port"),
        ("deleteWhen", "24", "00 to 23"),
        ("diskMaxUsedSpaceRatio", "100", "10 to 95"),
        ("brokerName", "", "not be empty"),
        ("brokerId", "-1", "a number from 0"),
        ("brokerRole", "SLAVE", "broker_id of a slave must be 1"),
        ("brokerRole", "LEADER", "ASYNC_MASTER, SYNC_MASTER, SLAVE"),
        ("haListenPort", "65536", "a number from 0 to 65535"),
        ("haMasterAddress", "10.0.0.1", "port"),
        ("haAllowedSlaves", "10.0.0.1/8", "has host bits set"),
        ("inSyncReplicas", "0", "a number from 1"),
        ("brokerPermission", "8", "0 to 7"),
        ("maxMessageSize", "99999999999999999999", "1 to"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(key: str, text: str, allowed: str) -> None:
    with pytest.raises(InvalidSetting, match=allowed) as caught:
        read_broker_conf(write_properties({key: text}))

    assert (caught.value.setting, caught.value.value) == (key, text)


@pytest.mark.parametrize("key", ["enableControllerMode", "enableDLegerCommitLog"])
def test_a_promise_we_do_not_keep_is_refused(key: str) -> None:
    with pytest.raises(InvalidSetting, match="only false is served"):
        read_broker_conf(f"{key}=true".encode())


def test_a_master_with_the_id_of_a_slave_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="must be 0 for a master: give it the role SLAVE"):
        read_broker_conf(b"brokerId=1")


def test_a_slave_is_read_and_serves_slaves_of_its_own_beside_its_port() -> None:
    settings, _ = read_broker_conf(b"brokerRole=SLAVE\nbrokerId=2\nhaMasterAddress=10.0.0.1:10912")

    config = settings.config
    assert (config.role, config.broker_id, config.ha_port) == (BrokerRole.SLAVE, 2, 0)
    assert config.ha_master_address == "10.0.0.1:10912"


@pytest.mark.parametrize(
    ("text", "ha_port"),
    [
        (b"brokerRole=SYNC_MASTER", 0),
        (b"brokerRole=SYNC_MASTER\nhaListenPort=20912", 20912),
        (b"brokerRole=ASYNC_MASTER", None),
        (b"brokerRole=ASYNC_MASTER\nhaListenPort=0", 0),
    ],
)
def test_a_master_opens_a_port_for_slaves_only_when_it_is_asked_to(
    text: bytes, ha_port: int | None
) -> None:
    settings, _ = read_broker_conf(text)

    assert settings.config.ha_port == ha_port


def test_a_store_in_several_places_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="must be commitlog in storePathRootDir"):
        read_broker_conf(b"storePathRootDir=/var/store\nstorePathCommitLog=/fast/commitlog")


def test_a_disk_ratio_over_the_forced_limit_counts_as_that_limit() -> None:
    settings, _ = read_broker_conf(b"diskMaxUsedSpaceRatio=95")

    assert settings.config.store.clean_percent == StoreConfig().clean_forced_percent


def test_a_queue_file_holds_whole_units() -> None:
    settings, _ = read_broker_conf(b"mappedFileSizeConsumeQueue=5999")

    assert settings.config.store.queue_file_bytes == 6_000


@pytest.mark.parametrize("key", [key for key, setting in SETTINGS.items() if setting.live])
def test_live_settings_change_while_the_broker_runs(key: str) -> None:
    config = changed_config(BrokerConfig(), {key: f" {a_value_of(key)} "})

    assert config != BrokerConfig()
    assert settings_texts(BrokerSettings(config=config))[key] == a_value_of(key)


@pytest.mark.parametrize(
    "key",
    [
        *(key for key, setting in SETTINGS.items() if not setting.live),
        *ONLY,
        *ELSEWHERE,
        "rocketmqHome",
        "brokerConfigPath",
    ],
)
def test_no_other_setting_changes_over_the_wire(key: str) -> None:
    with pytest.raises(InvalidSetting, match="cannot be changed"):
        changed_config(BrokerConfig(), {key: "true"})


def test_a_change_with_one_bad_value_changes_nothing() -> None:
    config = BrokerConfig()

    with pytest.raises(InvalidSetting):
        changed_config(config, {"traceOn": "false", "brokerPermission": "many"})

    assert config == BrokerConfig()


@pytest.mark.parametrize(
    ("key", "text", "range_"),
    [
        ("transactionCheckInterval", "1", "1000 to 3600000"),
        ("transactionTimeOut", "0", "1000 to 3600000"),
        ("transactionCheckMax", "0", "1 to 10000"),
        ("shortPollingTimeMills", "1", "100 to 60000"),
        ("timerMaxDelaySec", str(2**31 - 1), "0 to 31536000"),
    ],
)
def test_a_peer_sets_no_number_the_broker_could_not_work_with(
    key: str, text: str, range_: str
) -> None:
    """The file may: whoever writes it has the machine."""
    with pytest.raises(InvalidSetting, match=f"from {range_}"):
        changed_config(BrokerConfig(), {key: text})

    read_broker_conf(f"{key}={text}".encode())


def test_live_settings_are_no_paths_and_no_addresses() -> None:
    live = {setting.path for setting in SETTINGS.values() if setting.live}

    assert live <= {f"config.{one.name}" for one in fields(BrokerConfig)}


def test_every_setting_is_documented_and_marked_if_it_is_live() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")

    named = set(re.findall(r"`(\w+)`", page))
    marked = set(re.findall(r"`(\w+)`\*", page))

    assert SETTINGS.keys() | ONLY.keys() | ELSEWHERE.keys() <= named
    assert marked == {key for key, setting in SETTINGS.items() if setting.live}
