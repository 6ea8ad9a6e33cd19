"""The settings of a name server, under RocketMQ's names where those exist.

namesrv.conf is Java properties text.  Keys we do not use are ignored with a warning: such
a file has many that are about threads and buffers of Java.  A key we use with a value that
makes no sense is `InvalidSetting`, which names both.

Over the wire (UPDATE_NAMESRV_CONFIG, 318) only keys marked ``live`` may change: they are typed,
and none is a path.
Such a change lasts until the server stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flintmq.nameserver.replicas import SILENCE_MS
from flintmq.net.address import PORT_MAX, Address, parse_host
from flintmq.protocol.bodies.java_properties import read_properties, write_properties
from flintmq.protocol.bodies.setting_table import (
    Setting,
    SettingTable,
    changed,
    number,
    truth,
)

PORT = 9876
"""The port of a name server where nothing else is set, as in RocketMQ."""

HERE = Address("127.0.0.1", PORT)

DAY_S = 24 * 60 * 60

LIVE_WAIT_S = 300
"""What a peer may set for how long no route is answered after the start: with more than that a
peer could make all routes unavailable for a day."""

LIVE_SCAN_MS = (1_000, 60_000)
"""The range in which a peer may set how often silent brokers are looked for."""


@dataclass(frozen=True, slots=True)
class NameServerConfig:
    """The settings of one name server.  Unlike RocketMQ's it listens on loopback by default."""

    listen: Address = HERE
    kv_config_path: str | None = None
    order_message_enable: bool = False
    """Whether routes carry the fixed queues of ordered topics."""
    return_order_topic_config_to_broker: bool = True
    scan_interval_ms: int = 5_000
    """How often silent brokers are looked for."""
    broker_timeout_ms: int = SILENCE_MS
    """How long a broker may be silent that does not say it itself."""
    idle_ms: int = 120_000
    """After how long without traffic a connection is closed."""
    support_acting_master: bool = False
    delete_topic_with_broker_registration: bool = False
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    need_wait_for_service: bool = False
    """Whether to answer no route until brokers had time to register."""
    wait_for_service_ms: int = 45_000


SETTINGS: Mapping[str, Setting] = {
    "bindAddress": Setting("listen.host", parse_host),
    "listenPort": number("listen.port", 0, PORT_MAX),
    "kvConfigPath": Setting("kv_config_path", str),
    "orderMessageEnable": truth("order_message_enable", live=True),
    "returnOrderTopicConfigToBroker": truth("return_order_topic_config_to_broker", live=True),
    "scanNotActiveBrokerInterval": number("scan_interval_ms", 100, DAY_S * 1000, live=LIVE_SCAN_MS),
    "supportActingMaster": truth("support_acting_master", live=True),
    "deleteTopicWithBrokerRegistration": truth("delete_topic_with_broker_registration", live=True),
    "enableAllTopicList": truth("enable_all_topic_list", live=True),
    "enableTopicList": truth("enable_topic_list", live=True),
    "needWaitForService": truth("need_wait_for_service", live=True),
    "waitSecondsForService": number(
        "wait_for_service_ms", 0, DAY_S, unit=1000, live=(0, LIVE_WAIT_S)
    ),
    "serverChannelMaxIdleTimeSeconds": number("idle_ms", 1, DAY_S, unit=1000),
}

ONLY: Mapping[str, tuple[str, ...]] = {
    "clusterTest": ("false",),
    "enableControllerInNamesrv": ("false",),
    "notifyMinBrokerIdChanged": ("false",),
}
"""Settings of RocketMQ that are served with this value and no other."""

TABLE = SettingTable(SETTINGS, ONLY)

NEVER_OVER_THE_WIRE = frozenset(
    {"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}
)
"""Keys that RocketMQ, too, refuses to change for a peer."""


def read_config(
    content: bytes, base: NameServerConfig | None = None
) -> tuple[NameServerConfig, list[str]]:
    """Read namesrv.conf over ``base``; also give a warning for each key that was ignored.

    Raises `InvalidSetting` for a bad value and `MalformedBody` for text that is no such file.
    """
    texts = {key: value.strip() for key, value in read_properties(content).items()}
    changes = TABLE.read({key: text for key, text in texts.items() if key in TABLE})
    warnings = [
        f"{key} is not a setting of this name server; it is ignored"
        for key in texts
        if key not in TABLE
    ]
    return changed(base or NameServerConfig(), changes), warnings


def changed_config(config: NameServerConfig, properties: Mapping[str, str]) -> NameServerConfig:
    """The configuration after a peer changed some keys; raise `InvalidSetting` for any other.

    A key of `ONLY` may be set to the value it has.
    """
    TABLE.read({key: text.strip() for key, text in properties.items() if key in ONLY})
    others = {key: text for key, text in properties.items() if key not in ONLY}
    return changed(config, TABLE.read_live(others))


def config_text(config: NameServerConfig, listen: Address) -> bytes:
    """All settings but paths as properties text; ``listen`` is where the server really listens."""
    shown = TABLE.show(replace(config, listen=listen))
    return write_properties(
        {key: text for key, text in shown.items() if key not in NEVER_OVER_THE_WIRE}
    )
