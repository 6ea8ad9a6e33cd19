"""A namesrv.conf is read as RocketMQ means it, and whatever is wrong with it is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flintmq.errors import InvalidSetting
from flintmq.nameserver.config import NameServerConfig, changed_config, config_text, read_config
from flintmq.net.address import Address
from flintmq.protocol.bodies.java_properties import read_properties

REAL = b"""
# namesrv.conf
listenPort=9877
bindAddress=0.0.0.0
kvConfigPath=/data/kv.json
orderMessageEnable=true
scanNotActiveBrokerInterval = 1000
waitSecondsForService=5
serverChannelMaxIdleTimeSeconds=60
enableTopicList=FALSE
clusterTest=false
serverWorkerThreads=8
rocketmqHome=/opt/rocketmq
"""


@pytest.mark.parametrize(
    ("key", "text", "range_"),
    [
        ("waitSecondsForService", "86400", "0 to 300"),
        ("scanNotActiveBrokerInterval", "100", "1000 to 60000"),
        ("scanNotActiveBrokerInterval", "86400000", "1000 to 60000"),
    ],
)
def test_a_peer_sets_no_number_that_takes_routes_away(key: str, text: str, range_: str) -> None:
    """The file may: whoever writes it has the machine."""
    with pytest.raises(InvalidSetting, match=f"from {range_}"):
        changed_config(NameServerConfig(), {key: text})

    read_config(f"{key}={text}".encode())


def test_a_file_of_rocketmq_is_understood() -> None:
    config, warnings = read_config(REAL)

    assert config == NameServerConfig(
        listen=Address("0.0.0.0", 9877),
        kv_config_path="/data/kv.json",
        order_message_enable=True,
        scan_interval_ms=1_000,
        wait_for_service_ms=5_000,
        idle_ms=60_000,
        enable_topic_list=False,
    )
    assert warnings == [
        "serverWorkerThreads is not a setting of this name server; it is ignored",
        "rocketmqHome is not a setting of this name server; it is ignored",
    ]


def test_an_empty_file_changes_nothing() -> None:
    assert read_config(b"") == (NameServerConfig(), [])


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        (b"listenPort=1", Address("127.0.0.1", 1)),
        (b"bindAddress=::1", Address("::1", 9876)),
        (b"bindAddress=example.org", Address("example.org", 9876)),
    ],
)
def test_address_and_port_may_be_given_alone(text: bytes, listen: Address) -> None:
    assert read_config(text)[0].listen == listen


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("orderMessageEnable=yes", "must be true or false"),
        ("scanNotActiveBrokerInterval=99", "a number from 100 to"),
        ("scanNotActiveBrokerInterval=-1", "a number from"),
        ("waitSecondsForService=1e9", "a number from 0 to 86400"),
        ("serverChannelMaxIdleTimeSeconds=0", "a number from 1 to 86400"),
        ("listenPort=65536", "a number from 0 to 65535"),
        ("listenPort=", "a number from"),
        ("bindAddress=a b", "no host name"),
        ("clusterTest=true", "only false is served"),
    ],
)
def test_a_bad_value_is_refused_by_name_and_reason(line: str, reason: str) -> None:
    key = line.partition("=")[0]

    with pytest.raises(InvalidSetting, match=reason) as caught:
        read_config(line.encode())

    assert caught.value.setting == key


def test_some_keys_may_change_while_it_runs() -> None:
    before = NameServerConfig()

    after = changed_config(
        before, {"orderMessageEnable": "true", "waitSecondsForService": "7", "clusterTest": "false"}
    )

    assert after == NameServerConfig(order_message_enable=True, wait_for_service_ms=7_000)


@pytest.mark.parametrize(
    "key", ["kvConfigPath", "listenPort", "bindAddress", "serverChannelMaxIdleTimeSeconds", "x"]
)
def test_other_keys_may_not(key: str) -> None:
    with pytest.raises(InvalidSetting, match="cannot be changed while running"):
        changed_config(NameServerConfig(), {"orderMessageEnable": "true", key: "1"})


def test_the_text_of_a_configuration_reads_as_that_configuration() -> None:
    config, _ = read_config(REAL)

    text = config_text(config, config.listen)

    assert read_config(text) == (replace(config, kv_config_path=None), [])  # no peer sees a path
    assert list(read_properties(text)) == sorted(read_properties(text))
