"""The requests a consuming group makes, from its actions; and what their answers say.

Only headers and bodies are made here: where a request goes is for whoever knows the routes.
Offsets have theirs in `offsets_remote`, heartbeats in `heartbeat`.
"""

from __future__ import annotations

from typing import Final

from flintmq.core.ask import refusal
from flintmq.core.group.actions import DeadLetterRecord, LockQueues, Pull, SendBack, UnlockQueues
from flintmq.core.group.listener_results import DEAD_LETTER_LEVEL
from flintmq.errors import InvalidSetting
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client import TAG, ConsumerIds
from flintmq.protocol.bodies.group import LockAnswer, LockRequest
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import LANGUAGE, VERSION, Command, request
from flintmq.protocol.headers.common_headers import OfConsumerGroup
from flintmq.protocol.headers.group import SendBack as SendBackHeader
from flintmq.protocol.headers.group import UnregisterClient
from flintmq.protocol.headers.pull import PullFlag
from flintmq.protocol.headers.pull_template import pull_fields
from flintmq.protocol.version import version_number

FILTERS_SINCE: Final = version_number("V4_1_0_SNAPSHOT")
"""The first release whose brokers filter by more than tags."""

_PULL = int(RequestCode.PULL_MESSAGE)
_COMMIT = int(PullFlag.COMMIT_OFFSET)
_SUSPEND = int(PullFlag.SUSPEND)
_SUBSCRIPTION = int(PullFlag.SUBSCRIPTION)


def pull_request(pull: Pull, group: str, *, is_slave: bool = False) -> Command:
    """11.  A slave is not told how far we are: what it stores, its master's table replaces.

    Without ``suspend_ms`` the broker answers at once.
    """
    subscription = pull.subscription
    commits = pull.commit_offset is not None and not is_slave
    flags = (_SUSPEND if pull.suspend_ms else 0) | (_COMMIT if commits else 0)
    if pull.sends_subscription:
        flags |= _SUBSCRIPTION
    queue = pull.queue
    fields = pull_fields(
        group,
        queue.topic,
        queue.broker,
        queue.queue_id,
        count_max=pull.count_max,
        bytes_max=pull.bytes_max,
        suspend_ms=pull.suspend_ms,
        subscription=subscription.text if pull.sends_subscription else None,
        sub_version=pull.sub_version,
        expression_type=subscription.expression_type,
        offset=pull.offset,
        flags=flags,
        commit_offset=pull.commit_offset or 0,
    )
    return Command(_PULL, 0, 0, VERSION, LANGUAGE, None, fields)


def check_broker_filters(pull: Pull, broker_version: int) -> None:
    """Raise `InvalidSetting` where an old broker would give messages that nobody asked for."""
    kind = pull.subscription.expression_type
    if kind != TAG and broker_version < FILTERS_SINCE:
        reason = f"{pull.queue.broker} of version {broker_version} cannot filter by {kind}"
        raise InvalidSetting("sql", pull.subscription.text, reason)


def members_request(group: str) -> Command:
    """38."""
    header = OfConsumerGroup(consumer_group=group)
    return request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)


def read_members(reply: Command, address: str) -> tuple[str, ...]:
    """Who is in the group."""
    _require_success(reply, address)
    return ConsumerIds.from_body(reply.body).consumer_id_list


def lock_request(ask: LockQueues, group: str, client_id: str) -> Command:
    """41."""
    body = LockRequest(client_id=client_id, consumer_group=group, mq_set=ask.queues)
    return request(RequestCode.LOCK_BATCH_MQ, None, body.to_body())


def read_locked(reply: Command, address: str) -> tuple[QueueRef, ...]:
    """The queues that are locked for us now."""
    _require_success(reply, address)
    return LockAnswer.from_body(reply.body).lock_ok_mq_set


def unlock_request(unlock: UnlockQueues, group: str, client_id: str) -> Command:
    """42, oneway."""
    body = LockRequest(client_id=client_id, consumer_group=group, mq_set=unlock.queues)
    return request(RequestCode.UNLOCK_BATCH_MQ, None, body.to_body(), oneway=True)


def send_back_request(ask: SendBack, group: str, *, unit_mode: bool = False) -> Command:
    """36.  The broker finds the message by its place in the log."""
    message = ask.message
    header = SendBackHeader(
        offset=message.log_offset,
        group=group,
        delay_level=ask.delay_level,
        origin_msg_id=message.message_id,
        origin_topic=message.topic,
        unit_mode=unit_mode,
        max_reconsume_times=ask.tries_max,
        broker_name=ask.queue.broker,
    )
    return request(RequestCode.CONSUMER_SEND_MSG_BACK, header)


def dead_letter_request(
    ask: DeadLetterRecord, group: str, tries_max: int, *, unit_mode: bool = False
) -> Command:
    """36 for a record that cannot be decoded; level -1 means the dead letters."""
    bad = ask.bad
    header = SendBackHeader(
        offset=bad.log_offset,
        group=group,
        delay_level=DEAD_LETTER_LEVEL,
        origin_msg_id=bad.offset_message_id,
        origin_topic=bad.topic or ask.queue.topic,
        unit_mode=unit_mode,
        max_reconsume_times=tries_max,
        broker_name=ask.queue.broker,
    )
    return request(RequestCode.CONSUMER_SEND_MSG_BACK, header)


def unregister_request(client_id: str, group: str) -> Command:
    """35."""
    header = UnregisterClient(client_id=client_id, consumer_group=group)
    return request(RequestCode.UNREGISTER_CLIENT, header)


def _require_success(reply: Command, address: str) -> None:
    if reply.code != ResponseCode.SUCCESS:
        raise refusal(reply, address)
