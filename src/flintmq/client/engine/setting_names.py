"""Names that a program gives and that are not ours: deprecated names, words, and Java's settings.

    deprecated setting or method ─► works, with a `DeprecationWarning` that says the new name
    word in place of an enum     ─► the enum: ``"broadcasting"``, ``"earliest"``
    setting of RocketMQ's Java   ─► refused, and the error says our name

Nothing here is about what a setting means; the configs check values.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from datetime import datetime
from difflib import get_close_matches
from functools import wraps
from typing import Any, Final, Literal, ParamSpec, TypeAlias, TypeVar

from flintmq.errors import InvalidSetting
from flintmq.model.group import ConsumeFromWhere, MessageModel
from flintmq.model.start_point import StartPoint, read_start

P = ParamSpec("P")
T = TypeVar("T")

Model: TypeAlias = MessageModel | Literal["clustering", "broadcasting"]
StartFrom: TypeAlias = ConsumeFromWhere | StartPoint | datetime | int | str
"""Words, times and offsets: `model.start_point` says which."""

MODELS: Final = {
    "clustering": MessageModel.CLUSTERING,
    "broadcasting": MessageModel.BROADCASTING,
}
"""Words for the model."""

_FIRST_ARGUMENT: Final = "the group is the first argument"

JAVA_NAMES: Final[Mapping[str, str]] = {
    # every client
    "namesrvAddr": "namesrv",
    "clientIP": "client_ip",
    "instanceName": "instance_name",
    "unitName": "unit_name",
    "unitMode": "unit_mode",
    "namespaceV2": "namespace",
    "pollNameServerInterval": "route_ms",
    "heartbeatBrokerInterval": "heartbeat_ms",
    "mqClientApiTimeout": "call_timeout_ms",
    "useTLS": "tls",
    "accessKey": "access_key",
    "secretKey": "secret_key",
    "securityToken": "security_token",
    "enableMsgTrace": "trace",
    "enableTrace": "trace",
    "customizedTraceTopic": "trace_topic",
    # producers
    "retryTimesWhenSendFailed": "retries",
    "retryTimesWhenSendAsyncFailed": "retries",
    "retryAnotherBrokerWhenNotStoreOK": "retry_unsafe",
    "sendLatencyFaultEnable": "avoid_slow",
    "maxMessageSize": "message_bytes_max",
    "compressMsgBodyOverHowmuch": "compress_from_bytes",
    "compressType": "compression",
    "compressLevel": "compression_level",
    "defaultTopicQueueNums": "default_queue_count",
    "autoBatch": "auto_batch",
    # consumers
    "messageModel": "model",
    "consumeFromWhere": "start_from",
    "consumeTimestamp": "start_at_ms",
    "allocateMessageQueueStrategy": "strategy",
    "offsetStore": "offset_store",
    "persistConsumerOffsetInterval": "commit_interval_ms",
    "maxReconsumeTimes": "retry_max",
    "consumeThreadMin": "threads_min",
    "consumeThreadMax": "threads_max",
    "consumeMessageBatchMaxSize": "batch_max",
    "consumeConcurrentlyMaxSpan": "span_max",
    "consumeMaxSpan": "span_max",
    "consumeTimeout": "consume_timeout_ms",
    "suspendCurrentQueueTimeMillis": "ordered_suspend_ms",
    "pullBatchSize": "pull_batch_max",
    "pullBatchSizeInBytes": "pull_bytes_max",
    "pullInterval": "pull_interval_ms",
    "pullThresholdForQueue": "queue_count_max",
    "pullThresholdSizeForQueue": "queue_mib_max",
    "pullThresholdForTopic": "topic_count_max",
    "pullThresholdSizeForTopic": "topic_mib_max",
    "pullThresholdForAll": "total_count_max",
    "pullTimeDelayMillsWhenException": "pull_error_delay_ms",
    "postSubscriptionWhenPull": "sends_subscription",
    "brokerSuspendMaxTimeMillis": "hold_ms",
    "consumerTimeoutMillisWhenSuspend": "hold_timeout_ms",
    "consumerPullTimeoutMillis": "pull_timeout_ms",
    "autoCommit": "auto_commit",
    "autoCommitIntervalMillis": "auto_commit_ms",
}
"""Settings of RocketMQ's Java clients, and their names here."""

_INSTEAD: Final[Mapping[str, str]] = {
    "producerGroup": _FIRST_ARGUMENT,
    "sendMsgTimeout": "give timeout_ms to each send",
    "consumerGroup": _FIRST_ARGUMENT,
    "pollTimeoutMillis": "give timeout_ms to poll",
    "pullThreadNums": "consumers pull on the loop, only ScheduledPull has threads",
}
"""Settings of Java that are none here, and what to do instead."""


def _plain(name: str) -> str:
    """A name without case and underscores: ``consume_thread_min`` is ``consumeThreadMin``."""
    return name.replace("_", "").replace("-", "").lower()


_JAVA_NAMES: Final = {_plain(name): name for name in (*JAVA_NAMES, *_INSTEAD)}


def unknown_setting(
    name: str, value: object, known: set[str], renamed: Mapping[str, str]
) -> InvalidSetting:
    """The error for a setting that a client does not have; it says what was probably meant."""
    java_name = _JAVA_NAMES.get(_plain(name), "")
    if java_name in _INSTEAD:
        hint = f"{java_name} of Java is no setting here: {_INSTEAD[java_name]}"
    elif JAVA_NAMES.get(java_name) in known:
        hint = f"{java_name} of Java is {JAVA_NAMES[java_name]} here"
    else:
        meant = {each: each for each in sorted(known)} | dict(renamed)
        public = [each for each, new in meant.items() if not new.startswith("_")]
        near = [meant[each] for each in get_close_matches(name, public, 1)]
        hint = f"did you mean {near[0]}?" if near else "there is no such setting"
    return InvalidSetting(name, str(value)[:80], hint)


def in_own_names(settings: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Settings with deprecated names replaced, and words replaced by what they stand for."""
    given = dict(settings)
    for old in given.keys() & renamed.keys():
        new = renamed[old]
        if new in given:
            raise InvalidSetting(old, str(given[old])[:80], f"is the old name of {new}; give one")
        warn_renamed(f"the setting {old}", new)
        given[new] = given.pop(old)
    model = given.get("model")
    if type(model) is str:  # an enum of strings is none
        if model not in MODELS:
            raise InvalidSetting("model", model, f"is one of {', '.join(MODELS)}")
        given["model"] = MODELS[model]
    if "start_from" in given:
        given["start_from"] = read_start(given["start_from"])
    return given


def renamed(old: str, new: Callable[P, T]) -> Callable[P, T]:
    """A method under its old name: it warns and does what the new one does."""

    @wraps(new)
    def method(*args: P.args, **kwargs: P.kwargs) -> T:
        warn_renamed(old, new.__name__)
        return new(*args, **kwargs)

    method.__doc__ = f"Deprecated: `{new.__name__}`."
    return method


def warn_renamed(old: str, new: str) -> None:
    """Warn whoever is the first on the stack outside this package."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("flintmq."):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{old} is deprecated: use {new}", DeprecationWarning, stacklevel=level)
