"""The settings of a name server, under RocketMQ's names where those exist.

namesrv.conf is Java properties text.  Keys we do not use are told as warnings and ignored: such
a file has many that are about threads and buffers of Java.  A key we use with a value that
makes no sense is `InvalidSetting`, which names both.

Over the wire (318) only keys marked ``live`` may change: they are typed, and none is a path.
Such a change lasts until the server stops.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from flintmq.errors import InvalidSetting
from flintmq.nameserver.replicas import SILENCE_MS
from flintmq.net.address import PORT_MAX, Address
from flintmq.protocol.bodies.java_properties import read_properties, write_properties

PORT = 9876
"""Where every client looks for a name server that was not told otherwise."""

HERE = Address("127.0.0.1", PORT)

DAY_S = 24 * 60 * 60

LIVE_WAIT_S = 300
"""What a peer may set for how long no route is answered after the start: with more than that a
stranger could take all routes away for a day."""

LIVE_SCAN_MS = (1_000, 60_000)
"""How often a peer may let silent brokers be looked for."""


@dataclass(frozen=True, slots=True)
class NameServerConfig:
    """How one name server behaves.  Unlike RocketMQ's it listens on loopback unless told."""

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


class _Setting(NamedTuple):
    """How one key of the file becomes a field, and the field the key again."""

    field: str
    read: Callable[[str], object]
    show: Callable[[Any], str]
    live: bool
    read_live: Callable[[str], object] | None = None
    """What a peer may set, where that is less than what the file may."""


def _truth(field: str, *, live: bool = True) -> _Setting:
    def read(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("it is neither true nor false")
        return text.lower() == "true"

    return _Setting(field, read, lambda value: "true" if value else "false", live)


def _number(
    field: str, low: int, high: int, *, unit: int = 1, live: tuple[int, int] | None = None
) -> _Setting:
    """A whole number in a range.  ``unit`` is what one of it means in the field's own unit.

    ``live`` is the range for peers.
    """

    def reader(low: int, high: int) -> Callable[[str], int]:
        def read(text: str) -> int:
            if not re.fullmatch(r"[0-9]{1,12}", text, re.ASCII) or not low <= int(text) <= high:
                raise ValueError(f"it is no number from {low} to {high}")
            return int(text) * unit

        return read

    read_live = None if live is None else reader(*live)
    show = lambda value: str(value // unit)  # noqa: E731
    return _Setting(field, reader(low, high), show, live is not None, read_live)


_SETTINGS = {
    "kvConfigPath": _Setting("kv_config_path", str, str, live=False),
    "orderMessageEnable": _truth("order_message_enable"),
    "returnOrderTopicConfigToBroker": _truth("return_order_topic_config_to_broker"),
    "scanNotActiveBrokerInterval": _number(
        "scan_interval_ms", 100, DAY_S * 1000, live=LIVE_SCAN_MS
    ),
    "supportActingMaster": _truth("support_acting_master"),
    "deleteTopicWithBrokerRegistration": _truth("delete_topic_with_broker_registration"),
    "enableAllTopicList": _truth("enable_all_topic_list"),
    "enableTopicList": _truth("enable_topic_list"),
    "needWaitForService": _truth("need_wait_for_service"),
    "waitSecondsForService": _number(
        "wait_for_service_ms", 0, DAY_S, unit=1000, live=(0, LIVE_WAIT_S)
    ),
    "serverChannelMaxIdleTimeSeconds": _number("idle_ms", 1, DAY_S, unit=1000),
}

_FIXED = {
    "clusterTest": "false",
    "enableControllerInNamesrv": "false",
    "notifyMinBrokerIdChanged": "false",
}
"""Settings of RocketMQ that we serve with this value and no other."""

_BIND, _PORT = "bindAddress", "listenPort"

NEVER_OVER_THE_WIRE = frozenset(
    {"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}
)
"""What RocketMQ, too, refuses to change for a peer."""


def read_config(
    content: bytes, base: NameServerConfig | None = None
) -> tuple[NameServerConfig, list[str]]:
    """Read namesrv.conf over ``base``; also give a warning for each key that was ignored.

    Raises `InvalidSetting` for a bad value and `MalformedBody` for text that is no such file.
    """
    config = base or NameServerConfig()
    fields: dict[str, Any] = {}
    warnings = []
    properties = {key: value.strip() for key, value in read_properties(content).items()}
    for key, value in properties.items():
        if key in (_BIND, _PORT):
            continue
        if key in _SETTINGS or key in _FIXED:
            fields.update(_read(key, value))
        else:
            warnings.append(f"{key} is not a setting of this name server; it is ignored")
    listen = _listen(properties, config.listen)
    return replace(config, listen=listen, **fields), warnings


def changed_config(config: NameServerConfig, properties: Mapping[str, str]) -> NameServerConfig:
    """The configuration after a peer changed some keys; raise `InvalidSetting` for any other."""
    fields: dict[str, Any] = {}
    for key, value in properties.items():
        setting = _SETTINGS.get(key)
        if key not in _FIXED and (setting is None or not setting.live):
            raise InvalidSetting(key[:80], value[:80], "it cannot be changed while running")
        fields.update(_read(key, value.strip(), None if setting is None else setting.read_live))
    return replace(config, **fields)


def config_text(config: NameServerConfig, listen: Address) -> bytes:
    """All settings but paths as properties text; ``listen`` is where the server really listens."""
    properties = {
        key: setting.show(getattr(config, setting.field))
        for key, setting in _SETTINGS.items()
        if key not in NEVER_OVER_THE_WIRE
    }
    place = {_BIND: listen.host, _PORT: str(listen.port)}
    return write_properties(dict(sorted({**properties, **_FIXED, **place}.items())))


def _read(key: str, value: str, read: Callable[[str], object] | None = None) -> dict[str, object]:
    if key in _FIXED:
        if value.lower() != _FIXED[key]:
            raise InvalidSetting(key, value[:80], f"only {_FIXED[key]} is served")
        return {}
    setting = _SETTINGS[key]
    try:
        return {setting.field: (read or setting.read)(value)}
    except ValueError as error:
        raise InvalidSetting(key, value[:80], str(error)) from None


def _listen(properties: Mapping[str, str], before: Address) -> Address:
    host, port = properties.get(_BIND, before.host), properties.get(_PORT, str(before.port))
    if not re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) or int(port) > PORT_MAX:
        raise InvalidSetting(_PORT, port[:80], f"it is no number from 0 to {PORT_MAX}")
    try:
        return Address.parse(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except InvalidSetting as error:
        raise InvalidSetting(_BIND, host[:80], error.reason) from None
