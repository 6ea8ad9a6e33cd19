"""broker.conf: the settings of a broker under RocketMQ's names.

The file is Java properties text.  A key we do not use is a warning: such a file has many that are
about threads and buffers of Java.  A setting that promises something we do not do, such as DLedger,
is refused: going on without it would not be what the file asks for.

A SYNC_MASTER and a SLAVE serve slaves one port above listenPort unless haListenPort says where.  An
ASYNC_MASTER, which nearly every broker.conf names, serves them only where haListenPort is set: who
reaches that port can read everything.

Over the wire only keys marked ``live`` may change: they are typed, none is a path, and numbers stay
in a range in which the broker goes on working.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path

import msgspec

from flintmq.access.quotas import parse_quotas, show_quotas
from flintmq.broker.config.broker_config import BROKER_ID_MAX, BROKERS_MAX, BrokerConfig
from flintmq.broker.config.metrics_settings import (
    METRICS_HOST,
    METRICS_PORT,
    read_exporter,
    read_labels,
    show_labels,
)
from flintmq.broker.config.pop_config import read_mode
from flintmq.broker.config.replication_config import REPLICAS_MAX
from flintmq.errors import InvalidSetting
from flintmq.model.broker_role import BrokerRole
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
from flintmq.protocol.replication.ha_frames import TRANSFER_BYTES_MAX
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
    brokers: int | None = None
    """How many broker processes `flintmq serve` runs."""
    metrics: bool | None = None
    """Whether metrics are served …"""
    metrics_host: str | None = None
    metrics_port: int | None = None
    """… and where."""
    acl: bool = False
    """Access control by ACL 1.0."""
    authentication: bool = False
    authorization: bool = False
    """Access control by ACL 2.0: both, or neither."""
    first_user: tuple[str, str] | None = field(default=None, repr=False)
    """Name and password of a super user that is made where there is none."""
    inner: tuple[str, str] | None = field(default=None, repr=False)
    """Access key and secret that the broker signs with towards name servers and brokers."""

    @property
    def metrics_listen(self) -> Address | None:
        """Where metrics are served, if they are."""
        if not self.metrics:
            return None
        port = METRICS_PORT if self.metrics_port is None else self.metrics_port
        return Address(self.metrics_host or METRICS_HOST, port)


def read_role(text: str) -> BrokerRole:
    """A role by RocketMQ's name for it.  Raises `ValueError`."""
    try:
        return BrokerRole(text.upper())
    except ValueError:
        raise ValueError("it must be " + ", ".join(BrokerRole.__members__)) from None


def _read_place(text: str) -> str:
    return str(Address.parse(text))


def _read_networks(text: str) -> tuple[str, ...]:
    """Addresses and networks, such as ``10.0.0.2,10.1.0.0/16``."""
    return tuple(str(ip_network(part.strip())) for part in text.split(",") if part.strip())


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


def _read_pair(first: str, second: str) -> Callable[[str], tuple[str, str]]:
    """A reader of JSON with two texts; RocketMQ writes accounts into broker.conf that way."""

    def read(text: str) -> tuple[str, str]:
        try:
            found = msgspec.json.decode(text, type=dict[str, str])
            return found[first], found[second]
        except (msgspec.MsgspecError, KeyError):
            raise ValueError(f'it must be {{"{first}":"…","{second}":"…"}}') from None

    return read


def _hide(_pair: tuple[str, str]) -> str:
    return "******"


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
    "brokerId": number("config.broker_id", 0, BROKER_ID_MAX),
    "brokerIP1": Setting("advertise", parse_host),
    "bindAddress": Setting("listen_host", parse_host),
    "listenPort": number("listen_port", 0, PORT_MAX),
    "namesrvAddr": Setting("namesrv", parse_addresses, lambda found: ";".join(map(str, found))),
    "registerNameServerPeriod": number("config.register_ms", 10_000, 60_000),
    "registerBrokerTimeoutMills": number("config.register_timeout_ms", 1),
    "regionId": words("config.region"),
    "brokers": number("brokers", 1, BROKERS_MAX),
    # replicas
    "brokerRole": Setting("config.role", read_role, lambda role: role.value),
    "haListenPort": number("config.ha_port", 0, PORT_MAX),
    "haMasterAddress": Setting("config.ha_master_address", _read_place),
    "haTransferBatchSize": number("config.replication.transfer_bytes", 1, TRANSFER_BYTES_MAX),
    "haSendHeartbeatInterval": number("config.replication.heartbeat_ms", 100),
    "haHousekeepingInterval": number("config.replication.silence_ms", 1_000),
    "haAllowedSlaves": Setting("config.replication.allowed_slaves", _read_networks, ",".join),
    "slaveTimeout": number("config.replication.slave_timeout_ms", 1),
    "inSyncReplicas": number("config.replication.in_sync_replicas", 1, REPLICAS_MAX),
    "enableAutoInSyncReplicas": truth("config.replication.is_auto_in_sync"),
    "minInSyncReplicas": number("config.replication.min_in_sync_replicas", 1, REPLICAS_MAX),
    "haFlowControlEnable": truth("config.replication.has_flow_control"),
    "maxHaTransferByteInSecond": number("config.replication.flow_bytes_a_second", 1),
    "slaveReadEnable": truth("config.slave_read", live=True),
    "offsetCheckInSlave": truth("config.offset_check_in_slave", live=True),
    "enableSlaveActingMaster": truth("config.acting_master"),
    "brokerHeartbeatInterval": number("config.heartbeat_ms", 100, 60_000),
    "brokerNotActiveTimeoutMillis": number("config.not_active_ms", 1_000, DAY_S * 1_000),
    # metrics
    "metricsExporterType": Setting(
        "metrics", read_exporter, lambda is_on: "PROM" if is_on else "DISABLE"
    ),
    "metricsPromExporterHost": Setting("metrics_host", parse_host),
    "metricsPromExporterPort": number("metrics_port", 0, PORT_MAX),
    "metricsLabel": Setting(
        "config.metrics_labels",
        read_labels,
        show_labels,
    ),
    # access control
    "aclEnable": truth("acl"),
    "authenticationEnabled": truth("authentication"),
    "authorizationEnabled": truth("authorization"),
    "initAuthenticationUser": Setting("first_user", _read_pair("username", "password"), _hide),
    "innerClientAuthenticationCredentials": Setting(
        "inner", _read_pair("accessKey", "secretKey"), _hide
    ),
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
    "namesPerAddressMax": number(
        "config.names_per_address_max", 1, 1_000_000, live=(100, 1_000_000)
    ),
    # what peers may take
    "connectionsMax": number("config.connections_max", 10, 1_000_000),
    "connectionsPerAddressMax": number("config.connections_per_address_max", 0, 1_000_000),
    "requestsPerSecondMax": number(
        "config.requests_per_second_max", 0, 1_000_000, live=(0, 1_000_000)
    ),
    "quotas": Setting("config.quotas", parse_quotas, show_quotas, live=True),
    "partialFrameBytesMax": number("config.partial_bytes_max", FRAME_BYTES_MAX, INT64_MAX),
    "unreadBytesMax": number("config.unread_bytes_max", FRAME_BYTES_MAX, INT64_MAX),
    "unreadBytesPerConnectionMax": number(
        "config.connection_unread_bytes_max", FRAME_BYTES_MAX, INT64_MAX
    ),
    "heldPullsMax": number("config.holds_max", 1, 10_000_000, live=(1_000, 10_000_000)),
    "heldPullsPerConnectionMax": number(
        "config.connection_holds_max", 0, 10_000_000, live=(0, 10_000_000)
    ),
    # sending
    "startAcceptSendRequestTimeStamp": number("config.accept_sends_from_ms", 0, INT64_MAX),
    "maxMessageSize": number("config.store.message_bytes_max", 1, FRAME_BYTES_MAX),
    "traceOn": truth("config.trace_on", live=True),
    "storeReplyMessageEnable": truth("config.store_replies", live=True),
    "messageDelayLevel": Setting("config.store.delay_levels_ms", parse_delay_levels, _show_levels),
    "timerWheelEnable": truth("config.timers"),
    "timerMaxDelaySec": number("config.timer_delay_ms_max", 0, unit=1_000, live=(0, 365 * DAY_S)),
    "recallMessageEnable": truth("config.recalls", live=True),
    "rejectTransactionMessage": truth("config.reject_transactions", live=True),
    "transactionTimeOut": number("config.transaction_timeout_ms", 0, live=OFTEN_MS),
    "transactionCheckMax": number("config.transaction_checks_max", 0, live=(1, 10_000)),
    "transactionCheckInterval": number("config.transaction_check_ms", 1, live=OFTEN_MS),
    # consuming
    "longPollingEnable": truth("config.long_polling", live=True),
    "shortPollingTimeMills": number("config.short_polling_ms", 1, live=(100, 60_000)),
    "litePullMessageEnable": truth("config.lite_pull", live=True),
    "enablePropertyFilter": truth("config.property_filter", live=True),
    "filterSupportRetry": truth("config.filter_supports_retry", live=True),
    "enableCalcFilterBitMap": truth("config.bit_map_filter"),
    "notifyConsumerIdsChangedEnable": truth("config.notify_members", live=True),
    "channelExpiredTimeout": number("config.client_timeout_ms", 1_000),
    "useServerSideResetOffset": truth("config.server_side_reset", live=True),
    "flushConsumerOffsetInterval": number("config.save_offsets_ms", 100),
    # pops
    "enableRetryTopicV2": truth("config.pop.retry_topic_v2"),
    "popFromRetryProbability": number("config.pop.retry_first_percent", 0, 100),
    "popPollingSize": number("config.pop.holds_per_key_max", 1, 1_000_000),
    "maxPopPollingSize": number("config.pop.holds_max", 1, 10_000_000),
    "reviveQueueNum": number("config.pop.revive_queues", 1, 999),
    "defaultMessageRequestMode": Setting("config.pop.default_mode", read_mode),
    "defaultPopShareQueueNum": number("config.pop.default_share", 0, 65_536),
    "serverLoadBalancerEnable": truth("config.pop.assigns_queues"),
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
    "enabledAppendPropCRC": truth("config.store.record_checksums"),
    "enableLmq": truth("config.store.light_queues"),
    "enableMultiDispatch": truth("config.store.multi_dispatch"),
    "maxLmqConsumeQueueNum": number("config.store.light_queues_max", 1, 1_000_000),
    "scrubBytesPerSecond": number("config.scrub_bytes_per_s", 0, INT64_MAX),
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
    "duplicationEnable": ("false",),
    "enableControllerMode": ("false",),
    "enableDLegerCommitLog": ("false",),
    "popConsumerKVServiceInit": ("false",),
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
        "enablePopBufferMerge",
        "endTransactionThreadPoolNums",
        "flushIntervalCommitLog",
        "flushIntervalConsumeQueue",
        "forceRegister",
        "forceVerifyPropCRC",
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
    if changes.get("config.role", BrokerRole.ASYNC_MASTER) is not BrokerRole.ASYNC_MASTER:
        changes.setdefault("config.ha_port", 0)
    warnings = [_ignored(key) for key in texts if key not in TABLE and key not in ELSEWHERE]
    try:
        return changed(base or BrokerSettings(), changes), warnings
    except ValueError as error:  # each is right, and together they are not
        role = texts.get("brokerRole", BrokerRole.ASYNC_MASTER.value)
        raise InvalidSetting("brokerRole", role, str(error)) from None


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
