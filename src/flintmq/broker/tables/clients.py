"""Who is connected: consumers and producers by group, as their heartbeats say.

A group exists here while it has a member, and a member is one connection in one group.  The
subscriptions of a group are one table that every heartbeat of any member writes to, so members
with different subscriptions overwrite each other; such a conflict is logged, at a limited rate, and
listed by `conflicts`.

Invariant: ``_memberships`` names exactly the groups a connection is a member of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.limits.client_owners import ClientOwners
from flintmq.broker.limits.log_rate import Seldom
from flintmq.broker.requests.peer import Peer
from flintmq.broker.tables.subscription_conflicts import (
    SubscriptionConflict,
    SubscriptionWishes,
    conflicts_of,
    wishes_of,
)
from flintmq.errors import Overloaded
from flintmq.logs import logger
from flintmq.model.group import ConsumeFromWhere, ConsumeType, MessageModel
from flintmq.protocol.bodies.client import ConsumerGroup, Heartbeat, Subscription

log = logger(__name__)

CONNECTION_GROUPS_MAX = 1_000
"""Groups one connection may be a member of.  A process has a handful; each new one makes a group
and a topic, and so many take 30 ms."""


class ConnectedMember(msgspec.Struct, gc=False):
    """One connection of a client in one group."""

    peer: Peer
    client_id: str
    language: str
    version: int
    seen_ms: int
    wishes: SubscriptionWishes | None = None
    """The last subscriptions of this member; None when it never sent any."""
    account: str | None = None
    """Who registered it, where access control is on."""


@dataclass(slots=True)
class ConsumerGroupState:
    """A consumer group that has members now."""

    group: str
    consume_type: ConsumeType
    message_model: MessageModel
    consume_from_where: ConsumeFromWhere
    members: dict[Peer, ConnectedMember] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    """By topic, as the last heartbeats said."""
    fingerprint: int = 0
    """Of the last heartbeat of any member; 0 is one of the old kind."""
    notified_ms: int = 0
    """When the members were last notified that the group changed."""
    must_notify: bool = False
    """Whether it changed since then."""
    differences: Seldom = field(default_factory=Seldom)
    """Members that joined or changed with other subscriptions than another member."""

    @property
    def client_ids(self) -> list[str]:
        return [member.client_id for member in self.members.values()]

    def member_of_client(self, client_id: str) -> ConnectedMember | None:
        """A connection of a client, or nothing when it has none in this group."""
        found = (member for member in self.members.values() if member.client_id == client_id)
        return next(found, None)


class HeartbeatResult(msgspec.Struct, frozen=True):
    """``changed_groups`` must be notified; ``subscription_changed`` goes into the answer."""

    changed_groups: tuple[str, ...] = ()
    subscription_changed: bool = True


@dataclass(slots=True)
class _Membership:
    """The groups of one connection."""

    consumer: set[str] = field(default_factory=set)
    producer: set[str] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        return not (self.consumer or self.producer)

    def require_room(self, heartbeat: Heartbeat) -> None:
        """Raise `Overloaded` when a heartbeat makes it too many."""
        consumer = self.consumer.union(each.group_name for each in heartbeat.consumer_data_set)
        producer = self.producer.union(each.group_name for each in heartbeat.producer_data_set)
        if len(consumer) + len(producer) > CONNECTION_GROUPS_MAX:
            raise Overloaded(
                "groups of one connection", CONNECTION_GROUPS_MAX, "CONNECTION_GROUPS_MAX"
            )


class Clients:
    """All clients of this broker."""

    def __init__(self, config: BrokerConfig) -> None:
        self._timeout_ms = config.client_timeout_ms
        self._members_max = config.group_members_max
        self._consumers: dict[str, ConsumerGroupState] = {}
        self._producers: dict[str, dict[Peer, ConnectedMember]] = {}
        self._producer_clients: dict[str, ConnectedMember] = {}
        self._memberships: dict[Peer, _Membership] = {}
        self.owners = ClientOwners()
        self._turn = 0

    # Looking

    def consumer_group(self, group: str) -> ConsumerGroupState | None:
        return self._consumers.get(group)

    def consumer_groups(self) -> Sequence[ConsumerGroupState]:
        return list(self._consumers.values())

    def subscription(self, group: str, topic: str) -> Subscription | None:
        found = self._consumers.get(group)
        return None if found is None else found.subscriptions.get(topic)

    def groups_subscribing(self, topic: str) -> list[str]:
        """Groups with a member that subscribe to the topic."""
        return [name for name, found in self._consumers.items() if topic in found.subscriptions]

    def producers(self, group: str) -> list[ConnectedMember]:
        return list(self._producers.get(group, {}).values())

    def producer_groups(self) -> Sequence[str]:
        return list(self._producers)

    @property
    def producer_count(self) -> int:
        """Members of all producer groups."""
        return sum(map(len, self._producers.values()))

    def producer_of_client(self, client_id: str) -> ConnectedMember | None:
        """The connection of a producer by its client id, for replies."""
        return self._producer_clients.get(client_id)

    def next_producer(
        self, group: str, may_be_asked: Callable[[ConnectedMember], bool] = lambda _: True
    ) -> ConnectedMember | None:
        """Producers of a group in turn, for transaction checks."""
        members = [member for member in self.producers(group) if may_be_asked(member)]
        if not members:
            return None
        self._turn += 1
        return members[self._turn % len(members)]

    def conflicts(self) -> list[SubscriptionConflict]:
        """Where the members of a group differ from the first of them."""
        found: list[SubscriptionConflict] = []
        for state in self._consumers.values():
            wishes = [each.wishes for each in state.members.values() if each.wishes is not None]
            if wishes:
                found += conflicts_of(state.group, wishes[0], wishes[1:])
        return found

    # Joining

    def require_room(self, heartbeat: Heartbeat, peer: Peer) -> None:
        """Raise `Overloaded` when a connection would have too many groups, or a group members."""
        self.owners.require_room(heartbeat.client_id, peer)
        (self._memberships.get(peer) or _Membership()).require_room(heartbeat)
        for each in heartbeat.consumer_data_set:
            found = self._consumers.get(each.group_name)
            if (
                found is not None
                and len(found.members) >= self._members_max
                and peer not in found.members
                and found.message_model is not MessageModel.BROADCASTING
            ):
                what = f"members of {each.group_name}"
                raise Overloaded(what, self._members_max, "groupMembersMax")

    def heartbeat(
        self, heartbeat: Heartbeat, peer: Peer, language: str, version: int, now_ms: int
    ) -> HeartbeatResult:
        """Register a connection in all its groups, or renew it there.

        A heartbeat of the new kind has a fingerprint.  It may leave its subscriptions out;
        the answer then says whether they have to be sent after all.
        """
        groups = self._memberships.get(peer) or _Membership()
        groups.require_room(heartbeat)
        fingerprint = heartbeat.heartbeat_fingerprint or 0
        without_subscriptions = bool(fingerprint and heartbeat.without_sub)
        changed = []
        subscription_changed = not fingerprint

        def new_member() -> ConnectedMember:
            client_id, account = heartbeat.client_id, peer.account
            return ConnectedMember(peer, client_id, language, version, now_ms, account=account)

        for each in heartbeat.consumer_data_set:
            found = self._consumers.get(each.group_name)
            if found is None:
                found = self._consumers[each.group_name] = ConsumerGroupState(
                    each.group_name,
                    each.consume_type,
                    each.message_model,
                    each.consume_from_where,
                )
                subscription_changed |= without_subscriptions
            elif found.fingerprint != fingerprint:
                subscription_changed = True
            found.fingerprint = fingerprint
            member = new_member()
            is_new = _join(found, each, member)
            is_other = not without_subscriptions and _subscribe(found, each, member, now_ms)
            if is_new or is_other:
                changed.append(each.group_name)
            groups.consumer.add(each.group_name)
        for producer in heartbeat.producer_data_set:
            self._join_producers(producer.group_name, new_member())
            groups.producer.add(producer.group_name)
        if not groups.is_empty:
            self._memberships[peer] = groups
            self.owners.register(heartbeat.client_id, peer)
        return HeartbeatResult(tuple(changed), subscription_changed)

    def _join_producers(self, group: str, member: ConnectedMember) -> None:
        members = self._producers.setdefault(group, {})
        before = members.get(member.peer)
        members[member.peer] = member
        if before is not None and before.client_id != member.client_id:
            self._forget_producer_client(before)
        self._producer_clients[member.client_id] = member

    # Leaving

    def unregister(
        self, peer: Peer, client_id: str, producer_group: str | None, consumer_group: str | None
    ) -> list[str]:
        """Remove a client from its groups; returns the groups to notify."""
        groups = self._memberships.get(peer)
        if groups is None:
            return []
        log.info("%s: %s leaves %s", peer.address, client_id, consumer_group or producer_group)
        left = []
        if producer_group in groups.producer:
            groups.producer.remove(producer_group)
            self._leave_producers(producer_group, peer)
        if consumer_group in groups.consumer:
            groups.consumer.remove(consumer_group)
            self._leave_consumers(consumer_group, peer)
            left.append(consumer_group)
        if groups.is_empty:
            del self._memberships[peer]
            self.owners.forget(peer)
        return left

    def lost(self, peer: Peer) -> list[str]:
        """A connection was lost; returns the groups to notify."""
        groups = self._memberships.pop(peer, None)
        if groups is None:
            return []
        self.owners.forget(peer)
        for group in groups.producer:
            self._leave_producers(group, peer)
        left = sorted(groups.consumer)
        for group in left:
            self._leave_consumers(group, peer)
        return left

    def expired(self, now_ms: int) -> list[Peer]:
        """Connections without a heartbeat for too long; the server closes them."""
        limit_ms = now_ms - self._timeout_ms
        late = {member.peer: None for member in self._members() if member.seen_ms < limit_ms}
        return list(late)

    def carry(self, delta_ms: int) -> None:
        """Move all times along with the clock."""
        for member in self._members():
            member.seen_ms += delta_ms

    def _members(self) -> Iterator[ConnectedMember]:
        for found in self._consumers.values():
            yield from found.members.values()
        for members in self._producers.values():
            yield from members.values()

    def _leave_consumers(self, group: str, peer: Peer) -> None:
        found = self._consumers[group]
        del found.members[peer]
        if not found.members:
            del self._consumers[group]

    def _leave_producers(self, group: str, peer: Peer) -> None:
        members = self._producers[group]
        member = members.pop(peer)
        if not members:
            del self._producers[group]
        self._forget_producer_client(member)

    def _forget_producer_client(self, member: ConnectedMember) -> None:
        """Answers no longer go to a member that left; another group of its client may stand in."""
        if self._producer_clients.get(member.client_id) is not member:
            return
        del self._producer_clients[member.client_id]
        groups = self._memberships.get(member.peer)
        for group in groups.producer if groups is not None else ():
            other = self._producers[group].get(member.peer)
            if other is not None and other.client_id == member.client_id:
                self._producer_clients[member.client_id] = other
                return


def _join(found: ConsumerGroupState, wishes: ConsumerGroup, member: ConnectedMember) -> bool:
    """Put a member into its group; return whether it is new there."""
    found.consume_type = wishes.consume_type
    found.message_model = wishes.message_model
    found.consume_from_where = wishes.consume_from_where
    before = found.members.get(member.peer)
    if before is not None:
        member.wishes = before.wishes
        if before.client_id != member.client_id:
            log.warning(
                "%s: %s is now %s in %s",
                member.peer.address, before.client_id, member.client_id, found.group,
            )  # fmt: skip
    found.members[member.peer] = member
    return before is None


def _subscribe(
    found: ConsumerGroupState, wishes: ConsumerGroup, member: ConnectedMember, now_ms: int
) -> bool:
    """Write a member's subscriptions into its group; return whether its topics changed."""
    table = found.subscriptions
    changed = False
    for each in wishes.subscription_data_set:
        before = table.get(each.topic)
        if before is None or each.sub_version > before.sub_version:
            table[each.topic] = each
            changed |= before is None
    topics = {each.topic for each in wishes.subscription_data_set}
    for topic in [topic for topic in table if topic not in topics]:
        del table[topic]
        changed = True
    said = member.wishes
    member.wishes = wishes_of(found.group, member.client_id, wishes.subscription_data_set)
    if said is None or said.texts != member.wishes.texts:
        _log_conflict(found, member, now_ms)
    return changed


def _log_conflict(found: ConsumerGroupState, member: ConnectedMember, now_ms: int) -> None:
    """Log how a member that joined or changed differs from one that was there before.

    One other member is looked at, and the log is silent about the group for a while then: a
    group of thousands costs no more than one of two.
    """
    assert member.wishes is not None
    others = (each for each in islice(found.members.values(), 2) if each is not member)
    other = next((each.wishes for each in others if each.wishes is not None), None)
    if other is None:
        return
    conflict = next(conflicts_of(found.group, member.wishes, (other,)), None)
    if conflict is not None and (count := found.differences.happened(now_ms)):
        log.warning("the members of a group differ: %s (%d times)", conflict, count)
