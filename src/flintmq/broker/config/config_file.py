"""broker.conf: the settings of a broker under RocketMQ's names.

One table ties each name to a field of ours.  The same table reads the file, shows the settings
to admin tools (26) and takes the changes they ask for (25).

The file is Java properties text.  A key we know with a value that makes no sense is
`InvalidSetting`, which names key, value and what is allowed; Java would go on with the default.
A key we do not use is a warning: such a file has many that are about threads and buffers of
Java.  A setting that promises something we do not do, such as access control, is refused: going
on without it would not be what the file asks for.

Over the wire only keys marked ``live`` may change: they are typed, none is a path, and numbers stay
in a range in which the broker goes on working.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.errors import InvalidSetting
from flintmq.net.address import PORT_MAX, Address, parse_addresses
from flintmq.protocol.bodies.java_properties import read_properties
from flintmq.protocol.frame import FRAME_BYTES_MAX
from flintmq.store.files.layout import BATCH_UNIT_BYTES, UNIT_BYTES
from flintmq.store.files.store_config import Flush, StoreConfig, parse_delay_levels

D = TypeVar("D")

DAY_S = 24 * 60 * 60
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
OFTEN_MS = (1_000, 3_600_000)
"""What peers may set for work that is done again and again: not so often that it is all the broker
does, not so seldom that it is never done."""

SHOWN_CHARACTERS_MAX = 80
"""How much of a value that a peer or a file holds is shown in an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """All that a broker.conf can say.  What is None was not said."""

    config: BrokerConfig = field(default_factory=BrokerConfig)
    listen_host: str | None = None
    listen_port: int | None = None
    advertise: str | None = None
    """The host clients are told."""
    namesrv: tuple[Address, ...] | None = None
    directory: Path | None = None


class Setting(NamedTuple):
    """How a key becomes a field of `BrokerSettings`, and the field the key again."""

    path: str
    """Field names with dots between them."""
    read: Callable[[str], object]
    """Raises `ValueError` with what is allowed."""
    show: Callable[[Any], str]
    live: bool
    read_live: Callable[[str], object] | None = None
    """What a peer may set, where that is less than what the file may."""


def _truth(path: str, *, live: bool = False) -> Setting:
    def read(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("it must be true or false")
        return text.lower() == "true"

    return Setting(path, read, lambda value: "true" if value else "false", live)


def _number(
    path: str,
    low: int,
    high: int = INT32_MAX,
    *,
    unit: int = 1,
    step: int = 1,
    live: tuple[int, int] | None = None,
) -> Setting:
    """A whole number in a range.  ``unit`` is what one of it means in the field's own unit.

    A number between two steps counts as the next one.  ``live`` is the range for peers.
    """

    def reader(low: int, high: int) -> Callable[[str], int]:
        def read(text: str) -> int:
            if not re.fullmatch(r"[0-9]{1,19}", text, re.ASCII) or not low <= int(text) <= high:
                raise ValueError(f"it must be a number from {low} to {high}")
            return -(-int(text) // step) * step * unit

        return read

    read_live = None if live is None else reader(*live)
    show = lambda value: str(value // unit)  # noqa: E731
    return Setting(path, reader(low, high), show, live is not None, read_live)


def _text(path: str) -> Setting:
    def read(text: str) -> str:
        if not text:
            raise ValueError("it must not be empty")
        return text

    return Setting(path, read, str, live=False)


def _read_id(text: str) -> int:
    if text != "0":
        raise ValueError("only 0, a master, is served")
    return 0


def _read_host(text: str) -> str:
    try:
        return Address.parse(f"[{text}]:0" if ":" in text else f"{text}:0").host
    except InvalidSetting as error:
        raise ValueError(error.reason) from None


def _read_namesrv(text: str) -> tuple[Address, ...]:
    try:
        return parse_addresses(text)
    except InvalidSetting as error:
        raise ValueError(error.reason) from None


def _read_flush(text: str) -> Flush:
    if text not in _FLUSH:
        raise ValueError("it must be " + " or ".join(_FLUSH))
    return _FLUSH[text]


def _read_hour(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,2}", text, re.ASCII) or int(text) > 23:
        raise ValueError("it must be one hour of the day, from 00 to 23")
    return int(text)


def _read_used_percent(text: str) -> int:
    """RocketMQ takes 10 to 95, but from the forced limit on it deletes in any case."""
    if not re.fullmatch(r"[0-9]{1,2}", text, re.ASCII) or not 10 <= int(text) <= 95:
        raise ValueError("it must be a number from 10 to 95")
    return min(int(text), StoreConfig().clean_forced_percent)


def _show_levels(levels_ms: tuple[int, ...]) -> str:
    return " ".join(_show_delay(level_ms // 1_000) for level_ms in levels_ms)


def _show_delay(seconds: int) -> str:
    for letter, size in (("d", DAY_S), ("h", 3_600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{letter}"
    return f"{seconds}s"


_FLUSH = {"SYNC_FLUSH": Flush.SYNC, "ASYNC_FLUSH": Flush.ASYNC}

SETTINGS: Mapping[str, Setting] = {
    # who and where
    "brokerName": _text("config.broker_name"),
    "brokerClusterName": _text("config.cluster"),
    "brokerId": Setting("config.broker_id", _read_id, str, live=False),
    "brokerIP1": Setting("advertise", _read_host, str, live=False),
    "bindAddress": Setting("listen_host", _read_host, str, live=False),
    "listenPort": _number("listen_port", 0, PORT_MAX),
    "namesrvAddr": Setting(
        "namesrv", _read_namesrv, lambda found: ";".join(map(str, found)), live=False
    ),
    "registerNameServerPeriod": _number("config.register_ms", 10_000, 60_000),
    "registerBrokerTimeoutMills": _number("config.register_timeout_ms", 1),
    "regionId": _text("config.region"),
    # topics and groups
    "brokerPermission": _number("config.permission", 0, 7, live=(0, 7)),
    "autoCreateTopicEnable": _truth("config.auto_create_topic", live=True),
    "autoCreateSubscriptionGroup": _truth("config.auto_create_group", live=True),
    "defaultTopicQueueNums": _number("config.default_topic_queues", 1, 65_536),
    "traceTopicEnable": _truth("config.trace_topic"),
    "topicsMax": _number("config.topics_max", 1, 1_000_000),
    "groupsMax": _number("config.groups_max", 1, 1_000_000),
    "topicQueuesMax": _number("config.topic_queues_max", 1, 65_536),
    "groupMembersMax": _number("config.group_members_max", 1, 1_000_000),
    # sending
    "startAcceptSendRequestTimeStamp": _number("config.accept_sends_from_ms", 0, INT64_MAX),
    "maxMessageSize": _number("config.store.message_bytes_max", 1, FRAME_BYTES_MAX),
    "traceOn": _truth("config.trace_on", live=True),
    "storeReplyMessageEnable": _truth("config.store_replies", live=True),
    "messageDelayLevel": Setting(
        "config.store.delay_levels_ms", parse_delay_levels, _show_levels, live=False
    ),
    "timerWheelEnable": _truth("config.timers"),
    "timerMaxDelaySec": _number("config.timer_delay_ms_max", 0, unit=1_000, live=(0, 365 * DAY_S)),
    "rejectTransactionMessage": _truth("config.reject_transactions", live=True),
    "transactionTimeOut": _number("config.transaction_timeout_ms", 0, live=OFTEN_MS),
    "transactionCheckMax": _number("config.transaction_checks_max", 0, live=(1, 10_000)),
    "transactionCheckInterval": _number("config.transaction_check_ms", 1, live=OFTEN_MS),
    # consuming
    "longPollingEnable": _truth("config.long_polling", live=True),
    "shortPollingTimeMills": _number("config.short_polling_ms", 1, live=(100, 60_000)),
    "slaveReadEnable": _truth("config.slave_read", live=True),
    "litePullMessageEnable": _truth("config.lite_pull", live=True),
    "enablePropertyFilter": _truth("config.property_filter", live=True),
    "filterSupportRetry": _truth("config.filter_supports_retry", live=True),
    "enableCalcFilterBitMap": _truth("config.bit_map_filter"),
    "notifyConsumerIdsChangedEnable": _truth("config.notify_members", live=True),
    "channelExpiredTimeout": _number("config.client_timeout_ms", 1_000),
    "useServerSideResetOffset": _truth("config.server_side_reset", live=True),
    "flushConsumerOffsetInterval": _number("config.save_offsets_ms", 100),
    # the store
    "storePathRootDir": Setting("directory", Path, str, live=False),
    "flushDiskType": Setting(
        "config.store.flush", _read_flush, lambda flush: f"{flush.name}_FLUSH", live=False
    ),
    "mappedFileSizeCommitLog": _number("config.store.commit_log_file_bytes", 4_096),
    "mappedFileSizeConsumeQueue": _number(
        "config.store.queue_file_bytes", UNIT_BYTES, step=UNIT_BYTES
    ),
    "mapperFileSizeBatchConsumeQueue": _number(
        "config.store.batch_queue_file_bytes", BATCH_UNIT_BYTES, step=BATCH_UNIT_BYTES
    ),
    "mappedFileSizeConsumeQueueExt": _number("config.store.extension_file_bytes", 1_024),
    "enableConsumeQueueExt": _truth("config.store.extended_queues"),
    "maxHashSlotNum": _number("config.store.index_slots", 1),
    "maxIndexNum": _number("config.store.index_entries", 2),
    "fileReservedTime": _number("config.store.retention_hours", 0),
    "deleteWhen": Setting("config.retain_hour", _read_hour, lambda hour: f"{hour:02d}", live=True),
    "diskMaxUsedSpaceRatio": Setting(
        "config.store.clean_percent", _read_used_percent, str, live=False
    ),
    "cleanResourceInterval": _number("config.retain_ms", 100),
    "accessMessageInMemoryMaxRatio": _number("config.store.in_memory_percent", 0, 100),
    "maxTransferBytesOnMessageInMemory": _number("config.store.transfer.memory_bytes", 1),
    "maxTransferCountOnMessageInMemory": _number("config.store.transfer.memory_count", 1),
    "maxTransferBytesOnMessageInDisk": _number("config.store.transfer.disk_bytes", 1),
    "maxTransferCountOnMessageInDisk": _number("config.store.transfer.disk_count", 1),
    "maxFilterMessageSize": _number("config.store.scan_bytes_max", UNIT_BYTES),
}

ONLY: Mapping[str, tuple[str, ...]] = {
    "aclEnable": ("false",),
    "authenticationEnabled": ("false",),
    "authorizationEnabled": ("false",),
    "brokerRole": ("ASYNC_MASTER", "SYNC_MASTER"),
    "duplicationEnable": ("false",),
    "enableControllerMode": ("false",),
    "enableDLegerCommitLog": ("false",),
    "enableLmq": ("false",),
    "storeType": ("default",),
}
"""Settings of RocketMQ that are served with these values and no others."""

ELSEWHERE: Mapping[str, str] = {
    "storePathCommitLog": "commitlog",
    "storePathConsumeQueue": "consumequeue",
    "storePathIndex": "index",
}
"""Parts of a store that RocketMQ may keep elsewhere; here they stay below storePathRootDir."""

UNUSED = frozenset(
    {
        "brokerIP2",
        "compressedRegister",
        "endTransactionThreadPoolNums",
        "flushIntervalCommitLog",
        "flushIntervalConsumeQueue",
        "forceRegister",
        "haListenPort",
        "osPageCacheBusyTimeOutMills",
        "pullMessageThreadPoolNums",
        "rocketmqHome",
        "sendMessageThreadPoolNums",
        "syncFlushTimeout",
        "transferMsgByHeap",
        "transientStorePoolEnable",
        "useReentrantLockWhenPutMessage",
        "waitTimeMillsInSendQueue",
        "warmMapedFileEnable",
    }
)
"""Names that are right and mean nothing here, so that no other name is suggested for them."""


def read_broker_conf(
    content: bytes, base: BrokerSettings | None = None
) -> tuple[BrokerSettings, list[str]]:
    """Read a broker.conf over ``base``; also give a warning for each key that was ignored.

    Raises `InvalidSetting` for a bad value and `MalformedBody` for text that is no such file.
    """
    texts = {key: value.strip() for key, value in read_properties(content).items()}
    changes: dict[str, object] = {}
    warnings = []
    for key, text in texts.items():
        if key in SETTINGS:
            changes[SETTINGS[key].path] = _read(key, text)
        elif key in ONLY:
            _check_only(key, text)
        elif key in ELSEWHERE:
            _check_place(key, text, texts.get("storePathRootDir"))
        else:
            warnings.append(_ignored(key))
    return _changed(base or BrokerSettings(), changes), warnings


def settings_texts(settings: BrokerSettings) -> dict[str, str]:
    """Every setting by its name, in the order of names, without those that were not said."""
    shown = {key: values[0] for key, values in ONLY.items()}
    for key, setting in SETTINGS.items():
        value: object = settings
        for name in setting.path.split("."):
            value = getattr(value, name)
        if value is not None:
            shown[key] = setting.show(value)
    return dict(sorted(shown.items()))


def changed_config(config: BrokerConfig, texts: Mapping[str, str]) -> BrokerConfig:
    """The configuration after a peer changed some keys; `InvalidSetting` for any it may not."""
    changes: dict[str, object] = {}
    for key, text in texts.items():
        setting = SETTINGS.get(key)
        if setting is None or not setting.live:
            raise InvalidSetting(
                key[:SHOWN_CHARACTERS_MAX],
                text[:SHOWN_CHARACTERS_MAX],
                "it cannot be changed while the broker runs",
            )
        changes[setting.path] = _read(key, text.strip(), setting.read_live)
    return _changed(BrokerSettings(config=config), changes).config


def _read(key: str, text: str, read: Callable[[str], object] | None = None) -> object:
    try:
        return (read or SETTINGS[key].read)(text)
    except ValueError as error:
        raise InvalidSetting(key, text[:SHOWN_CHARACTERS_MAX], str(error)) from None


def _check_only(key: str, text: str) -> None:
    if text.lower() not in (value.lower() for value in ONLY[key]):
        allowed = " or ".join(ONLY[key])
        raise InvalidSetting(key, text[:SHOWN_CHARACTERS_MAX], f"only {allowed} is served")


def _check_place(key: str, text: str, root: str | None) -> None:
    if root is None or Path(text) != Path(root) / ELSEWHERE[key]:
        raise InvalidSetting(
            key, text[:SHOWN_CHARACTERS_MAX], f"it must be {ELSEWHERE[key]} in storePathRootDir"
        )


def _ignored(key: str) -> str:
    warning = f"{key[:SHOWN_CHARACTERS_MAX]} is not used by this broker; it is ignored"
    if key not in UNUSED:
        known = {name.lower(): name for name in (*SETTINGS, *ONLY, *ELSEWHERE)}
        for near in difflib.get_close_matches(key.lower(), known, 1, cutoff=0.8):
            warning += f"; did you mean {known[near]}?"
    return warning


def _changed(value: D, changes: Mapping[str, object]) -> D:
    """A frozen dataclass with the fields of these dotted paths replaced, all at once."""
    assert is_dataclass(value)
    replaced: dict[str, object] = {}
    for one in fields(value):
        inner = {
            path.partition(".")[2]: new
            for path, new in changes.items()
            if path.partition(".")[0] == one.name
        }
        if "" in inner:
            replaced[one.name] = inner[""]
        elif inner:
            replaced[one.name] = _changed(getattr(value, one.name), inner)
    changed: D = replace(value, **replaced)  # type: ignore[type-var]  # asserted above
    return changed
