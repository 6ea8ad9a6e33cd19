"""broker.conf: the settings of a broker under RocketMQ's names.

The file is Java properties text.  A key we do not use is a warning: such a file has many that are
about threads and buffers of Java.  A setting that promises something we do not do, such as access
control, is refused: going on without it would not be what the file asks for.

Over the wire only keys marked ``live`` may change: they are typed, none is a path, and numbers stay
in a range in which the broker goes on working.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.net.address import PORT_MAX, Address, parse_addresses, parse_host
from flintmq.protocol.bodies.java_properties import read_properties
from flintmq.protocol.bodies.setting_table import (
    SHOWN_CHARACTERS_MAX,
    Setting,
    SettingTable,
    changed,
    invalid,
    number,
    truth,
    words,
)
from flintmq.protocol.frame import FRAME_BYTES_MAX
from flintmq.store.files.layout import BATCH_UNIT_BYTES, UNIT_BYTES
from flintmq.store.files.store_config import Flush, StoreConfig, parse_delay_levels

DAY_S = 24 * 60 * 60
INT64_MAX = 2**63 - 1
OFTEN_MS = (1_000, 3_600_000)
"""What peers may set for periodic work: not so often that it is all the broker
does, not so rarely that it is never done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """All that a broker.conf can set.  What is None is not set."""

    config: BrokerConfig = field(default_factory=BrokerConfig)
    listen_host: str | None = None
    listen_port: int | None = None
    advertise: str | None = None
    """The host that clients connect to."""
    namesrv: tuple[Address, ...] | None = None
    directory: Path | None = None


def _read_id(text: str) -> int:
    if text != "0":
        raise ValueError("only 0, a master, is served")
    return 0


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
    "brokerName": words("config.broker_name"),
    "brokerClusterName": words("config.cluster"),
    "brokerId": Setting("config.broker_id", _read_id),
    "brokerIP1": Setting("advertise", parse_host),
    "bindAddress": Setting("listen_host", parse_host),
    "listenPort": number("listen_port", 0, PORT_MAX),
    "namesrvAddr": Setting("namesrv", parse_addresses, lambda found: ";".join(map(str, found))),
    "registerNameServerPeriod": number("config.register_ms", 10_000, 60_000),
    "registerBrokerTimeoutMills": number("config.register_timeout_ms", 1),
    "regionId": words("config.region"),
    # topics and groups
    "brokerPermission": number("config.permission", 0, 7, live=(0, 7)),
    "autoCreateTopicEnable": truth("config.auto_create_topic", live=True),
    "autoCreateSubscriptionGroup": truth("config.auto_create_group", live=True),
    "defaultTopicQueueNums": number("config.default_topic_queues", 1, 65_536),
    "traceTopicEnable": truth("config.trace_topic"),
    "topicsMax": number("config.topics_max", 1, 1_000_000),
    "groupsMax": number("config.groups_max", 1, 1_000_000),
    "topicQueuesMax": number("config.topic_queues_max", 1, 65_536),
    "groupMembersMax": number("config.group_members_max", 1, 1_000_000),
    # sending
    "startAcceptSendRequestTimeStamp": number("config.accept_sends_from_ms", 0, INT64_MAX),
    "maxMessageSize": number("config.store.message_bytes_max", 1, FRAME_BYTES_MAX),
    "traceOn": truth("config.trace_on", live=True),
    "storeReplyMessageEnable": truth("config.store_replies", live=True),
    "messageDelayLevel": Setting("config.store.delay_levels_ms", parse_delay_levels, _show_levels),
    "timerWheelEnable": truth("config.timers"),
    "timerMaxDelaySec": number("config.timer_delay_ms_max", 0, unit=1_000, live=(0, 365 * DAY_S)),
    "rejectTransactionMessage": truth("config.reject_transactions", live=True),
    "transactionTimeOut": number("config.transaction_timeout_ms", 0, live=OFTEN_MS),
    "transactionCheckMax": number("config.transaction_checks_max", 0, live=(1, 10_000)),
    "transactionCheckInterval": number("config.transaction_check_ms", 1, live=OFTEN_MS),
    # consuming
    "longPollingEnable": truth("config.long_polling", live=True),
    "shortPollingTimeMills": number("config.short_polling_ms", 1, live=(100, 60_000)),
    "slaveReadEnable": truth("config.slave_read", live=True),
    "litePullMessageEnable": truth("config.lite_pull", live=True),
    "enablePropertyFilter": truth("config.property_filter", live=True),
    "filterSupportRetry": truth("config.filter_supports_retry", live=True),
    "enableCalcFilterBitMap": truth("config.bit_map_filter"),
    "notifyConsumerIdsChangedEnable": truth("config.notify_members", live=True),
    "channelExpiredTimeout": number("config.client_timeout_ms", 1_000),
    "useServerSideResetOffset": truth("config.server_side_reset", live=True),
    "flushConsumerOffsetInterval": number("config.save_offsets_ms", 100),
    # the store
    "storePathRootDir": Setting("directory", Path),
    "flushDiskType": Setting(
        "config.store.flush", _read_flush, lambda flush: f"{flush.name}_FLUSH"
    ),
    "mappedFileSizeCommitLog": number("config.store.commit_log_file_bytes", 4_096),
    "mappedFileSizeConsumeQueue": number(
        "config.store.queue_file_bytes", UNIT_BYTES, step=UNIT_BYTES
    ),
    "mapperFileSizeBatchConsumeQueue": number(
        "config.store.batch_queue_file_bytes", BATCH_UNIT_BYTES, step=BATCH_UNIT_BYTES
    ),
    "mappedFileSizeConsumeQueueExt": number("config.store.extension_file_bytes", 1_024),
    "enableConsumeQueueExt": truth("config.store.extended_queues"),
    "maxHashSlotNum": number("config.store.index_slots", 1),
    "maxIndexNum": number("config.store.index_entries", 2),
    "fileReservedTime": number("config.store.retention_hours", 0),
    "deleteWhen": Setting("config.retain_hour", _read_hour, lambda hour: f"{hour:02d}", live=True),
    "diskMaxUsedSpaceRatio": Setting("config.store.clean_percent", _read_used_percent),
    "cleanResourceInterval": number("config.retain_ms", 100),
    "accessMessageInMemoryMaxRatio": number("config.store.in_memory_percent", 0, 100),
    "maxTransferBytesOnMessageInMemory": number("config.store.transfer.memory_bytes", 1),
    "maxTransferCountOnMessageInMemory": number("config.store.transfer.memory_count", 1),
    "maxTransferBytesOnMessageInDisk": number("config.store.transfer.disk_bytes", 1),
    "maxTransferCountOnMessageInDisk": number("config.store.transfer.disk_count", 1),
    "maxFilterMessageSize": number("config.store.scan_bytes_max", UNIT_BYTES),
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

TABLE = SettingTable(SETTINGS, ONLY)

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
    for key in texts.keys() & ELSEWHERE.keys():
        _check_place(key, texts[key], texts.get("storePathRootDir"))
    changes = TABLE.read({key: text for key, text in texts.items() if key in TABLE})
    warnings = [_ignored(key) for key in texts if key not in TABLE and key not in ELSEWHERE]
    return changed(base or BrokerSettings(), changes), warnings


def settings_texts(settings: BrokerSettings) -> dict[str, str]:
    """Every setting by its name, in the order of names, without those that are not set."""
    return TABLE.show(settings)


def changed_config(config: BrokerConfig, texts: Mapping[str, str]) -> BrokerConfig:
    """The configuration after a peer changed some keys; `InvalidSetting` for any it may not."""
    return changed(BrokerSettings(config=config), TABLE.read_live(texts)).config


def _check_place(key: str, text: str, root: str | None) -> None:
    if root is None or Path(text) != Path(root) / ELSEWHERE[key]:
        raise invalid(key, text, f"it must be {ELSEWHERE[key]} in storePathRootDir")


def _ignored(key: str) -> str:
    warning = f"{key[:SHOWN_CHARACTERS_MAX]} is not used by this broker; it is ignored"
    if key not in UNUSED:
        known = {name.lower(): name for name in (*SETTINGS, *ONLY, *ELSEWHERE)}
        for near in difflib.get_close_matches(key.lower(), known, 1, cutoff=0.8):
            warning += f"; did you mean {known[near]}?"
    return warning
