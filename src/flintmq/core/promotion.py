"""A planned switch of master and slave: nothing that was acknowledged is lost.

    plan      who is who, how far behind the slave is, and what speaks against it
    fence     the master stores nothing any more and no longer registers
    wait      until the log of the slave ends where that of the master does
    promote   the slave copies the tables once more, saves its role and starts again as the master
    demote    the old master saves its role and starts again as a slave

A switch goes on only if every step did.  When the slave refuses, the fence is lifted and the old
master goes on.  When nobody knows whether the slave has become the master, the fence stays: two
masters would be worse than none, and the error says what to do.

Without a master (``master_is_gone``) the slave is promoted as it is; what it does not have is lost.
Both brokers have to be ours: RocketMQ's take a role only from their file.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from flintmq.core.admin.cluster import fetch_cluster
from flintmq.core.ask import ask
from flintmq.core.conversation import Conversation, Pause, PausingConversation
from flintmq.core.routes import NameServers
from flintmq.errors import BrokerRefused, FlintError, Unreachable, WrongState
from flintmq.model.broker_role import BrokerRole
from flintmq.model.route import MASTER_ID, BrokerReplicas
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.bodies.java_properties import write_properties
from flintmq.protocol.codes import RequestCode

BEHIND_BYTES_MAX: Final = 16 * 1024 * 1024
"""A slave that is further behind would keep producers waiting: it has to catch up first."""

LOOK_MS: Final = 100
"""How often it is asked how far a step is."""

CATCH_UP_MS: Final = 20_000
"""How long producers may wait for the slave to get the rest of the log."""

RESTART_MS: Final = 60_000
"""How long a broker may take to start again with its role: its stop has a limit of 20 seconds."""

FENCED: Final = "flintmqFenced"
LOG_END: Final = "flintmqLogEnd"
MASTER_GONE: Final = "flintmqMasterGone"


@dataclass(frozen=True, slots=True)
class PromotionPlan:
    """Who would become what.  ``problems`` is empty when nothing speaks against it.

    ``master`` is None when no master is registered; then ``behind_bytes`` is not known.
    """

    broker: str
    master: str | None
    slave: str
    slave_id: int
    role: BrokerRole
    behind_bytes: int | None
    problems: tuple[str, ...] = ()


def plan_promotion(
    namesrv: NameServers, broker: str, slave_id: int | None = None
) -> Conversation[PromotionPlan]:
    """Look at the replicas of a broker: the slave with this id, or with the lowest, for master."""
    cluster = yield from fetch_cluster(namesrv)
    (replicas,) = cluster.chosen(broker=broker)
    slave_id = _choose(replicas, slave_id)
    slave = replicas.addresses[slave_id]
    problems = []
    mine = yield from _figures(slave)
    if "brokerRole" not in mine:
        problems.append(f"{slave} is not a FlintMQ broker: change its role in its broker.conf")
    elif mine["brokerRole"] != BrokerRole.SLAVE.value:
        problems.append(f"{slave} says that it is {mine['brokerRole']}, not a slave")
    role, behind = BrokerRole.ASYNC_MASTER, None
    if replicas.master is not None:
        theirs = yield from _figures(replicas.master)
        if "brokerRole" not in theirs:
            reason = "is not a FlintMQ broker and cannot be fenced: stop it, then use --master-gone"
            problems.append(f"{replicas.master} {reason}")
        else:
            role = BrokerRole(theirs["brokerRole"])
        behind = _end(theirs) - _end(mine)
        if behind < 0:
            problems.append(f"the slave has {-behind:,} bytes more than its master: logs differ")
        if behind > BEHIND_BYTES_MAX:
            problems.append(f"the slave is {behind:,} bytes behind: let it catch up first")
    return PromotionPlan(broker, replicas.master, slave, slave_id, role, behind, tuple(problems))


def promote(
    namesrv: NameServers, plan: PromotionPlan, *, master_is_gone: bool = False
) -> PausingConversation[None]:
    """Carry a plan out.  Raises `WrongState` with what is the case when it cannot be."""
    if plan.problems:
        raise _stopped(plan, plan.problems[0])
    if master_is_gone:
        if plan.master is not None:
            raise _stopped(plan, f"its master {plan.master} is registered: switch as planned")
        mine = yield from _figures(plan.slave)
        yield from _give_role(plan.slave, plan.role, MASTER_ID, _end(mine), master_is_gone=True)
        yield from _until_role(namesrv, plan, plan.slave, plan.role, MASTER_ID)
        return
    if plan.master is None:
        raise _stopped(plan, "no master is registered: --master-gone promotes the slave as it is")
    yield from _settings(plan.master, {FENCED: "true"})
    try:
        log_end = yield from _caught_up(plan, plan.master)
        yield from _give_role(plan.slave, plan.role, MASTER_ID, log_end)
        yield from _until_role(namesrv, plan, plan.slave, plan.role, MASTER_ID)
    except (BrokerRefused, _NotDone) as error:
        yield from _settings(plan.master, {FENCED: "false"})
        raise _stopped(plan, f"{error}; {plan.master} goes on as the master") from None
    except FlintError as error:
        reason = (
            f"{error}; {plan.master} is fenced and takes no sends. Look whether {plan.slave} is "
            "the master now; if it is not, restart the old one: that lifts its fence"
        )
        raise _stopped(plan, reason) from error
    yield from _give_role(plan.master, BrokerRole.SLAVE, plan.slave_id)
    yield from _until_role(namesrv, plan, plan.master, BrokerRole.SLAVE, plan.slave_id)


class _NotDone(FlintError):
    """A step that certainly did not happen."""


def _choose(replicas: BrokerReplicas, slave_id: int | None) -> int:
    ids = sorted(each for each in replicas.addresses if each != MASTER_ID)
    if slave_id is None and ids:
        return ids[0]
    if slave_id is None or slave_id not in ids:
        known = ", ".join(map(str, ids)) or "none"
        raise WrongState(replicas.broker, "without that slave", f"its slaves are {known}")
    return slave_id


def _figures(address: str) -> Conversation[Mapping[str, str]]:
    reply = yield from ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    return KvTable.from_body(reply.body).table


def _end(figures: Mapping[str, str]) -> int:
    return int(figures.get("commitLogMaxOffset", "0"))


def _settings(address: str, changes: Mapping[str, str]) -> Conversation[None]:
    body = write_properties(dict(changes))
    yield from ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)


def _give_role(
    address: str,
    role: BrokerRole,
    broker_id: int,
    log_end: int | None = None,
    *,
    master_is_gone: bool = False,
) -> Conversation[None]:
    changes = {"brokerRole": role.value, "brokerId": str(broker_id)}
    if log_end is not None:
        changes[LOG_END] = str(log_end)
    if master_is_gone:
        changes[MASTER_GONE] = "true"
    yield from _settings(address, changes)


def _caught_up(plan: PromotionPlan, master: str) -> PausingConversation[int]:
    """Where both logs end."""
    theirs = yield from _figures(master)
    for _ in range(CATCH_UP_MS // LOOK_MS):
        mine = yield from _figures(plan.slave)
        if _end(mine) >= _end(theirs):
            return _end(theirs)
        yield Pause(LOOK_MS)
    behind = _end(theirs) - _end(mine)
    raise _NotDone(f"the slave still lacks {behind:,} bytes after {CATCH_UP_MS // 1_000} s")


def _until_role(
    namesrv: NameServers, plan: PromotionPlan, address: str, role: BrokerRole, broker_id: int
) -> PausingConversation[None]:
    """Wait until a broker has a role and the name servers know it."""
    for _ in range(RESTART_MS // LOOK_MS):
        figures: Mapping[str, str] = {}
        with suppress(Unreachable):  # it is starting again
            figures = yield from _figures(address)
        if figures.get("roleFault"):
            raise _NotDone(f"{address} keeps its role: {figures['roleFault']}")
        if figures.get("brokerRole") == role.value:
            cluster = yield from fetch_cluster(namesrv)
            known = {each.broker: each.addresses for each in cluster.brokers}
            if known.get(plan.broker, {}).get(broker_id) == address:
                return
        yield Pause(LOOK_MS)
    reason = f"is not registered as {role.value} after {RESTART_MS // 1_000} s"
    raise Unreachable(address, reason)


def _stopped(plan: PromotionPlan, reason: str) -> WrongState:
    return WrongState(plan.broker, "not switched", reason)
