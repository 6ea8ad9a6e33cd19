"""How a group is doing, and why a queue of it stands still.

Brokers know who is online, what the group wants and how far it is.  What a member makes of its
queues only the member knows: it is asked through a broker (GET_CONSUMER_RUNNING_INFO, 307).
Members of ours say for each queue what they wait for; Java's send times and counts, and the reason
is read from those.

Members may not answer: pull consumers, other languages, a member that hangs.  Then it is said
that they do not tell, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flintmq.core.admin.cluster import fetch_cluster
from flintmq.core.admin.group_conflicts import wishes_of
from flintmq.core.admin.groups import GroupMembers, Member, fetch_members, list_groups
from flintmq.core.admin.lag import QueueLag, group_lag
from flintmq.core.ask import ASK_MS, CLIENT_CALL_MS, ask
from flintmq.core.conversation import Conversation
from flintmq.core.group.missing_topic import describe_missing, is_of_brokers
from flintmq.core.routes import NameServers, fetch_topic_names
from flintmq.errors import FlintError
from flintmq.model.group import retry_topic
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client_call import (
    CONSUME_ORDERLY,
    QueueState,
    RunningConsumer,
    queue_note,
)
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.client_call import DescribeConsumer

MEMBERS_MAX = 64
"""Members that are asked; a look at a group must come to its end."""

SILENT_MS = 120_000
"""A queue that was not pulled for so long is not pulled at all; RocketMQ takes the same time."""

SLOW_MS = 60_000
"""Messages that wait in a member for so long wait for a listener."""


@dataclass(frozen=True, slots=True)
class MemberTold:
    """What a member says of itself; ``silence`` is why it does not."""

    member: Member
    running: RunningConsumer | None = None
    silence: str = ""

    @property
    def is_ordered(self) -> bool | None:
        if self.running is None or CONSUME_ORDERLY not in self.running.properties:
            return None
        return self.running.properties[CONSUME_ORDERLY].lower() == "true"


@dataclass(frozen=True, slots=True)
class QueueDiagnosis:
    """A queue, who has it and, where the group is behind, why."""

    progress: QueueLag
    owners: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class GroupDiagnosis:
    """The state of a group.  ``is_known``: a broker has the settings of the group."""

    group: str
    is_known: bool
    online: GroupMembers | None
    members: tuple[MemberTold, ...]
    conflicts: tuple[str, ...]
    queues: tuple[QueueDiagnosis, ...]
    missing: tuple[str, ...] = ()
    """A sentence for each subscribed topic that has no route."""


def diagnose_group(
    namesrv: NameServers, group: str, *, now_ms: int
) -> Conversation[GroupDiagnosis]:
    """Ask brokers and members; only a broker that does not answer is an error."""
    known = {each.name: each for each in (yield from list_groups(namesrv))}
    online = yield from fetch_members(namesrv, group)
    lag = yield from group_lag(namesrv, group)
    cluster = yield from fetch_cluster(namesrv)
    addresses = cluster.readable()
    told: list[MemberTold] = []
    for number, member in enumerate(() if online is None else online.members):
        address = addresses.get(member.brokers[0])
        if address is None or number >= MEMBERS_MAX:
            told.append(MemberTold(member, silence="was not asked"))
        else:
            told.append((yield from _ask(address, group, member)))
    is_enabled = group not in known or known[group].is_enabled
    owners = _owners(told)
    return GroupDiagnosis(
        group,
        group in known,
        online,
        tuple(told),
        tuple(find_conflicts(group, told, owners)),
        tuple(
            QueueDiagnosis(
                progress,
                tuple(owners.get(progress.queue, ())),
                explain(progress, told, group=group, is_enabled=is_enabled, now_ms=now_ms)
                if progress.lag
                else "",
            )
            for progress in lag.queues
        ),
        (yield from _missing(namesrv, online)),
    )


def _missing(namesrv: NameServers, online: GroupMembers | None) -> Conversation[tuple[str, ...]]:
    """The topics that the members subscribe to and that no name server knows."""
    topics = [] if online is None else sorted({wish.topic for wish in online.wishes})
    if all(map(is_of_brokers, topics)):
        return ()
    known = yield from fetch_topic_names(namesrv, ASK_MS)
    return tuple(
        describe_missing(topic, known)
        for topic in topics
        if topic not in known and not is_of_brokers(topic)
    )


def _ask(address: str, group: str, member: Member) -> Conversation[MemberTold]:
    header = DescribeConsumer(consumer_group=group, client_id=member.client_id, jstack_enable=False)
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    try:
        reply = yield from ask(address, code, header, timeout_ms=CLIENT_CALL_MS)
        return MemberTold(member, RunningConsumer.from_body(reply.body))
    except FlintError as error:
        return MemberTold(member, silence=f"does not tell: {error}")


def _owners(told: Iterable[MemberTold]) -> dict[QueueRef, list[str]]:
    owners: dict[QueueRef, list[str]] = {}
    for each in told:
        for queue in () if each.running is None else each.running.mq_table:
            owners.setdefault(queue, []).append(each.member.client_id)
    return owners


def find_conflicts(
    group: str, told: Iterable[MemberTold], owners: Mapping[QueueRef, list[str]]
) -> list[str]:
    """Where members do not agree: each of these loses messages or consumes them twice."""
    found = []
    wishes = {
        each.member.client_id: wishes_of(group, each.running.subscription_set)
        for each in told
        if each.running is not None
    }
    topics = sorted({topic for wanted in wishes.values() for topic in wanted})
    for topic in topics:
        texts = {client: wanted.get(topic, "nothing") for client, wanted in wishes.items()}
        if len(set(texts.values())) > 1:
            listed = ", ".join(f"{client} wants {text}" for client, text in sorted(texts.items()))
            found.append(f"members differ on {topic}: {listed}")
    orders = {each.is_ordered for each in told} - {None}
    if len(orders) > 1:
        found.append("some members consume in order, others do not")
    found += [
        f"{queue} belongs to {len(clients)} members: {', '.join(sorted(clients))}"
        for queue, clients in sorted(owners.items())
        if len(clients) > 1
    ]
    return found


def describe_lag(found: GroupDiagnosis) -> str:
    """Whether a group is behind, how far, and why: a sentence or two for people."""
    behind = sorted(
        (each for each in found.queues if each.progress.lag),
        key=lambda each: (-each.progress.lag, each.progress.queue),
    )
    if not behind:
        in_flight = sum(each.progress.in_flight or 0 for each in found.queues)
        done = "consumed" if not in_flight else f"handed out, and {in_flight:,} are in flight"
        return f"{found.group} is not behind: every message was {done}."
    total = sum(each.progress.lag for each in behind)
    sentence = (
        f"{found.group} is {total:,} messages behind in {len(behind)} of {len(found.queues)} queues"
    )
    lags: dict[str, int] = {}
    for each in behind:
        lags[each.why] = lags.get(each.why, 0) + each.progress.lag
    why = max(lags, key=lambda text: lags[text])
    if len(lags) == 1:
        return f"{sentence}: {why}."
    queue = next(each.progress.queue for each in behind if each.why == why)
    others = len(lags) - 1
    return f"{sentence}. Most of it: {why} ({queue}); {others} more reasons below."


def explain(
    progress: QueueLag,
    told: Iterable[MemberTold],
    *,
    group: str,
    is_enabled: bool,
    now_ms: int,
) -> str:
    """Why a queue is behind, as its owner sees it: the first reason that holds."""
    queue, told = progress.queue, list(told)
    if not is_enabled:
        return "the group is switched off at a broker"
    if not told:
        return "no member is online"
    tellers = [each for each in told if each.running is not None]
    holders = [each for each in tellers if each.running and queue in each.running.mq_table]
    if not holders:
        wanted = {
            wish.topic for each in tellers if each.running for wish in each.running.subscription_set
        }
        silent = [each.member.client_id for each in told if each.running is None]
        if silent:
            return f"who has it is not known: {', '.join(silent)} does not tell"
        if queue.topic not in wanted and queue.topic != retry_topic(group):
            return f"no member subscribes to {queue.topic}"
        return "no member has it; it is shared out every 20 seconds"
    holder = holders[0]
    assert holder.running is not None
    note = (holder.running.user_consumer_info or {}).get(queue_note(queue))
    return note or _read(holder, holder.running.mq_table[queue], now_ms)


def _read(holder: MemberTold, state: QueueState, now_ms: int) -> str:
    """What the numbers of a member without words mean."""
    if state.dropped:
        return "it is giving the queue up"
    if holder.is_ordered and not state.locked:
        return "it waits for the lock of the queue; another member has it, or had it until now"
    if state.cached_msg_count:
        cached = f"{state.cached_msg_count} messages wait for its listeners"
        idle_ms = now_ms - state.last_consume_timestamp
        if state.last_consume_timestamp and idle_ms > SLOW_MS:
            return f"{cached}, and none was consumed for {idle_ms // 1000} s"
        return cached
    idle_ms = now_ms - state.last_pull_timestamp
    if state.last_pull_timestamp and idle_ms > SILENT_MS:
        return f"it did not pull for {idle_ms // 1000} s"
    return "it pulls, and has nothing of it yet"
