"""Settings of clients: what a client tells of itself, and what it is told to go by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from flintmq.errors import InvalidExpression
from flintmq.filter.tags import parse_tags
from flintmq.protocol.bodies.client import SQL92, TAG, Subscription
from flintmq.proxy.calls.message_checks import BODY_BYTES_MAX
from flintmq.proxy.tables.cluster_facts import GroupFacts
from flintmq.proxy.tables.proxy_clients import TOPICS_MAX
from flintmq.proxy.wire.grpc_codes import ClientType, Code, FilterType
from flintmq.proxy.wire.message_classes import Settings
from flintmq.proxy.wire.resource_names import group_of, topic_of
from flintmq.proxy.wire.statuses import StatusRefusal

PRODUCER_ATTEMPTS: Final = 3
PRODUCER_BACKOFF_MS: Final = (10, 1_000, 2.0)
"""First and longest pause, and the factor between them."""

GROUP_BACKOFF_MS: Final = (5_000, 7_200_000, 2.0)
"""The same of a group with the policy EXPONENTIAL that says no more."""

BACKOFF_S: Final = (
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200,
)  # fmt: skip
"""RocketMQ's delay levels: by these a message that failed is hidden."""

RECEIVE_BATCH: Final = 32
LONG_POLLING_MS: Final = 20_000

_CONSUMERS: Final = frozenset({ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER})


class BadSettings(Exception):
    """Settings that end the stream they came on; ``is_ours`` where the kind is not served."""

    def __init__(self, text: str, *, is_unserved: bool = False) -> None:
        super().__init__(text, is_unserved)
        self.text, self.is_unserved = text, is_unserved


@dataclass(frozen=True, slots=True)
class ToldSettings:
    """What a client said, checked."""

    kind: ClientType
    group: str = ""
    topics: tuple[str, ...] = ()
    """Those of a producer, or of the subscriptions of a consumer."""
    wishes: tuple[Subscription, ...] = ()

    @property
    def is_consumer(self) -> bool:
        return bool(self.group)


def read_settings(settings: Any, now_ms: int) -> ToldSettings:
    """Raises `BadSettings`."""
    which = settings.WhichOneof("pub_sub")
    try:
        kind = ClientType(settings.client_type)
    except ValueError:
        kind = ClientType.CLIENT_TYPE_UNSPECIFIED
    try:
        if which == "publishing":
            topics = tuple(dict.fromkeys(map(topic_of, settings.publishing.topics)))
            _check_count(len(topics))
            return ToldSettings(ClientType.PRODUCER, topics=topics)
        if which != "subscription":
            raise BadSettings("there is no publishing or subscription data in settings")
        if kind not in _CONSUMERS:
            text = f"Client type is not consumer, type: {kind.name}"
            raise BadSettings(f"{_FAILED}{text}", is_unserved=True)
        subscription = settings.subscription
        group = group_of(subscription.group)
        _check_count(len(subscription.subscriptions))
        wishes = tuple(_wish(entry, now_ms) for entry in subscription.subscriptions)
    except StatusRefusal as refused:
        raise BadSettings(f"{_FAILED}{refused.text}") from None
    topics = tuple(wish.topic for wish in wishes)
    return ToldSettings(kind, group, topics, wishes)


def producer_settings(told: Any) -> Any:
    """What a producer is told to go by."""
    answer = Settings()
    answer.CopyFrom(told)
    answer.publishing.max_body_size = BODY_BYTES_MAX
    answer.publishing.validate_message_type = True
    answer.backoff_policy.max_attempts = PRODUCER_ATTEMPTS
    _exponential(answer.backoff_policy, *PRODUCER_BACKOFF_MS)
    answer.metric.on = False
    return answer


def consumer_settings(told: Any, facts: GroupFacts) -> Any:
    """What a consumer is told to go by: the settings of its group."""
    answer = Settings()
    answer.CopyFrom(told)
    subscription = answer.subscription
    subscription.fifo = facts.is_ordered
    subscription.receive_batch_size = RECEIVE_BATCH
    subscription.long_polling_timeout.FromMilliseconds(LONG_POLLING_MS)
    answer.backoff_policy.max_attempts = facts.attempts_max
    policy = facts.policy or {}
    if policy.get("type") == "EXPONENTIAL":
        given = policy.get("exponentialRetryPolicy") or {}
        first, most, factor = GROUP_BACKOFF_MS
        _exponential(
            answer.backoff_policy,
            given.get("initial", first),
            given.get("max", most),
            given.get("multiplier", factor),
        )
    else:
        customized = answer.backoff_policy.customized_backoff
        del customized.next[:]
        for wait_ms in _steps_ms(policy):
            customized.next.add().FromMilliseconds(wait_ms)
    answer.metric.on = False
    return answer


_FAILED: Final = "process client telemetryCommand failed. "


def _steps_ms(policy: dict[str, Any]) -> list[int]:
    given = policy.get("customizedRetryPolicy") or {}
    steps = given.get("next") if policy.get("type") == "CUSTOMIZED" else None
    if isinstance(steps, list) and steps and all(isinstance(each, int) for each in steps):
        return steps
    return [1000 * wait_s for wait_s in BACKOFF_S]


def _exponential(policy: Any, first_ms: int, most_ms: int, factor: float) -> None:
    backoff = policy.exponential_backoff
    backoff.initial.FromMilliseconds(int(first_ms))
    backoff.max.FromMilliseconds(int(most_ms))
    backoff.multiplier = factor


def _wish(entry: Any, now_ms: int) -> Subscription:
    topic = topic_of(entry.topic)
    text = entry.expression.expression
    if entry.expression.type == FilterType.SQL:
        return Subscription(topic=topic, expression_type=SQL92, sub_string=text, sub_version=now_ms)
    try:
        tags = parse_tags(text)
    except InvalidExpression as error:
        raise StatusRefusal(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from None
    return Subscription(
        topic=topic,
        expression_type=TAG,
        sub_string=tags.text,
        sub_version=now_ms,
        tags_set=tuple(sorted(tags.tags)),
        code_set=tuple(sorted(tags.codes)),
    )


def _check_count(count: int) -> None:
    if count > TOPICS_MAX:
        raise BadSettings(f"{_FAILED}a client has at most {TOPICS_MAX} topics")
