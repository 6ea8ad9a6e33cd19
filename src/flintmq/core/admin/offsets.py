"""Moving a group: to a time, to an offset, or to where another group stands.

A reset is made in two steps, so that people can look before they leap.  `plan_reset` finds for
each queue where the group stands and where it would go; `apply_reset` goes there.  How depends
on the broker:

    it resets by itself (5.2 and later) ───────────► 222 with queue and offset; members follow
    it does not, and no member is online ──────────► 15, a plain commit
    it does not, members online, moved by time ────► 222 with the time: it tells them
    it does not, members online, moved by offset ──► refused: they would commit over it

Invariant: a plan never leads out of its queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from msgspec import structs

from flintmq.core.admin.cluster import (
    fetch_cluster,
    readable_brokers,
    require_route,
    settings_at,
)
from flintmq.core.admin.groups import connections_at
from flintmq.core.admin.lag import group_lag
from flintmq.core.admin.spans import Target, ToEnd, ToOffset, ToStart, ToTime, resolve
from flintmq.core.ask import CLIENT_CALL_MS, ask
from flintmq.core.conversation import Conversation
from flintmq.core.reading.broker_offsets import commit_offset, extent, group_offset
from flintmq.core.routes import NameServers
from flintmq.errors import InvalidSetting, NoRoute
from flintmq.model.group import check_group_name, retry_topic
from flintmq.model.queue import Extent, QueueOffset, QueueRef
from flintmq.protocol.bodies.group import GroupConfig, GroupTable
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.client_call import ResetOffset
from flintmq.protocol.headers.group import CloneGroupOffset

SERVER_SIDE_RESET = "useServerSideResetOffset"
"""The broker's setting that says whether it resets by itself."""

END_TIME_MS = -1
"""The time by which 222 means the end of a queue."""


@dataclass(frozen=True, slots=True)
class LikeGroup:
    """Where another group stands."""

    source: str


@dataclass(frozen=True, slots=True)
class Move:
    """One queue: where the group stands, None when nowhere, and where it would go."""

    queue: QueueRef
    address: str
    stands_at: QueueOffset | None
    goes_to: QueueOffset
    extent: Extent

    @property
    def again(self) -> int:
        """Messages that would be consumed once more; below 0: that would be skipped."""
        return 0 if self.stands_at is None else self.stands_at - self.goes_to


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """``is_partial`` says that some queues of a broker were left out on purpose."""

    group: str
    topic: str
    target: Target | LikeGroup
    moves: tuple[Move, ...]
    is_partial: bool = False


def plan_reset(
    namesrv: NameServers,
    group: str,
    topic: str,
    target: Target,
    *,
    broker: str | None = None,
    queue_id: int | None = None,
) -> Conversation[ResetPlan]:
    """Where the group would go in each queue of a topic, or in the queues that are named."""
    route = yield from require_route(namesrv, topic)
    queues = [
        queue
        for queue in route.subscribe_queues(topic)
        if broker in (None, queue.broker) and queue_id in (None, queue.queue_id)
    ]
    if not queues:
        which = "" if queue_id is None else f" {queue_id}"
        where = "" if broker is None else f" on {broker}"
        raise NoRoute(topic, f"no queue{which} to read{where}")
    moves = []
    for queue in queues:
        address = route.address(queue.broker)
        if address is None:
            raise NoRoute(topic, f"{queue.broker} has no master that could move a group")
        bounds = yield from extent(address, queue)
        stands_at = yield from group_offset(address, group, queue, zero_if_young=False)
        if isinstance(target, ToOffset) and not bounds.start <= target.offset <= bounds.stop:
            reason = f"{queue} goes from {bounds.start} to {bounds.stop}"
            raise InvalidSetting("offset", str(target.offset), reason)
        goes_to = yield from resolve(address, queue, target, bounds)
        moves.append(Move(queue, address, stands_at, goes_to, bounds))
    return ResetPlan(group, topic, target, tuple(moves), is_partial=queue_id is not None)


def plan_like(
    namesrv: NameServers, group: str, source: str, *, topic: str | None = None
) -> Conversation[tuple[ResetPlan, ...]]:
    """Where a group would go to stand where another does: a plan for each topic.

    Queues in which the other has no offset are left out.  Its retries are its own.
    """
    topics = [topic] if topic is not None else []
    if topic is None:
        lag = yield from group_lag(namesrv, source)
        topics = sorted({each.queue.topic for each in lag.queues} - {retry_topic(source)})
    plans = []
    for name in topics:
        route = yield from require_route(namesrv, name)
        moves = []
        for queue in route.subscribe_queues(name):
            address = route.address(queue.broker)
            if address is None:
                raise NoRoute(name, f"{queue.broker} has no master that could move a group")
            theirs = yield from group_offset(address, source, queue, zero_if_young=False)
            if theirs is None:
                continue
            bounds = yield from extent(address, queue)
            stands_at = yield from group_offset(address, group, queue, zero_if_young=False)
            goes_to = min(max(theirs, bounds.start), bounds.stop)
            moves.append(Move(queue, address, stands_at, goes_to, bounds))
        if moves:
            plans.append(ResetPlan(group, name, LikeGroup(source), tuple(moves)))
    return tuple(plans)


def apply_reset(plan: ResetPlan) -> Conversation[Mapping[QueueRef, QueueOffset]]:
    """Go where the plan leads; the offsets the brokers then had."""
    reached: dict[QueueRef, QueueOffset] = {}
    by_broker: dict[str, list[Move]] = {}
    for move in plan.moves:
        by_broker.setdefault(move.address, []).append(move)
    for address, moves in by_broker.items():
        settings = yield from settings_at(address)
        if settings.get(SERVER_SIDE_RESET, "").lower() == "true":
            yield from _reset_by_broker(address, plan, moves)
        elif (yield from connections_at(address, plan.group)) is None:
            for move in moves:
                yield from commit_offset(address, plan.group, move.queue, move.goes_to)
        else:
            yield from _reset_by_members(address, plan)
        reached.update((move.queue, move.goes_to) for move in moves)
    return reached


def clone_offsets(
    namesrv: NameServers, source: str, target: str, *, topic: str | None = None
) -> Conversation[tuple[str, ...]]:
    """Give a group the offsets of another, in one topic or all (CLONE_GROUP_OFFSET, 314).

    Topics are named one by one: without a name RocketMQ answers yes and copies nothing.  A broker
    that does not know the target is told of it first, with the settings of the source: else there
    would be offsets of a group that no list shows and nobody can delete.
    """
    check_group_name(target)
    topics = [topic] if topic is not None else []
    if topic is None:
        lag = yield from group_lag(namesrv, source)
        topics = sorted({each.queue.topic for each in lag.queues} - {retry_topic(source)})
    known = yield from fetch_cluster(namesrv)
    for address in known.masters().values() if topics else ():
        yield from _require_group(address, target, like=source)
    for name in topics:
        header = CloneGroupOffset(src_group=source, dest_group=target, topic=name, offline=False)
        for address in known.masters().values():
            yield from ask(address, RequestCode.CLONE_GROUP_OFFSET, header)
    return tuple(topics)


def fetch_offsets(
    namesrv: NameServers, group: str, topic: str
) -> Conversation[Mapping[QueueRef, QueueOffset | None]]:
    """The committed offset in every queue of a topic; None where the group never committed."""
    route = yield from require_route(namesrv, topic)
    addresses = readable_brokers(route)
    found: dict[QueueRef, QueueOffset | None] = {}
    for queue in route.subscribe_queues(topic):
        if queue.broker in addresses:
            address = addresses[queue.broker]
            found[queue] = yield from group_offset(address, group, queue, zero_if_young=False)
    return found


def _require_group(address: str, group: str, *, like: str) -> Conversation[None]:
    """Make a group on a broker that does not know it."""
    reply = yield from ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    known = GroupTable.from_body(reply.body).subscription_group_table
    if group not in known:
        model = known.get(like, GroupConfig(group_name=group))
        config = structs.replace(model, group_name=group)
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        yield from ask(address, code, body=config.to_body())


def _reset_by_broker(address: str, plan: ResetPlan, moves: Iterable[Move]) -> Conversation[None]:
    for move in moves:
        header = ResetOffset(
            group=plan.group,
            topic=plan.topic,
            queue_id=move.queue.queue_id,
            offset=move.goes_to,
            timestamp=END_TIME_MS,
            is_force=True,
        )
        yield from ask(
            address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, timeout_ms=CLIENT_CALL_MS
        )


def _reset_by_members(address: str, plan: ResetPlan) -> Conversation[None]:
    """The broker finds the offsets by the time once more, and tells them to the members."""
    stop_first = f"members of {plan.group} are online and would commit over it: stop them first"
    if plan.is_partial:
        raise InvalidSetting("queue", str(plan.moves[0].queue), stop_first)
    match plan.target:
        case ToTime(time_ms):
            pass
        case ToStart():
            time_ms = 0
        case ToEnd():
            time_ms = END_TIME_MS
        case ToOffset(offset):
            raise InvalidSetting("offset", str(offset), stop_first)
        case LikeGroup(source):
            raise InvalidSetting("group", source, stop_first)
        case _:
            assert_never(plan.target)
    header = ResetOffset(group=plan.group, topic=plan.topic, timestamp=time_ms, is_force=True)
    yield from ask(
        address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, timeout_ms=CLIENT_CALL_MS
    )
