"""Fencing and roles of a running broker, for a planned switch of master and slave.

UPDATE_BROKER_CONFIG (25) has keys of its own for it, which only `flintmq broker promote` uses:

    flintmqFenced=true         of a master: nothing is stored any more, and it no longer registers
    flintmqFenced=false        it goes on
    brokerRole, brokerId       another role; the broker saves it and starts again with it at once
      with flintmqLogEnd=N       of a slave: only if its log ends exactly there
      with flintmqMasterGone     of a slave: the tables of the master are not copied once more

Refused: a role for a master that is not fenced, since a send might be taken meanwhile; a role for a
slave without the end of its log, since nobody has compared it; anything else in the same request.

Invariant: a broker that was a slave becomes a master only with all that its caller has seen there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from flintmq.broker.config.config_file import read_role
from flintmq.broker.requests.outcome import Answer, Outcome, Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.tables.broker_tables import NextRole
from flintmq.logs import logger
from flintmq.model.broker_role import BrokerRole
from flintmq.protocol.codes import ResponseCode

log = logger(__name__)

FENCED: Final = "flintmqFenced"
LOG_END: Final = "flintmqLogEnd"
MASTER_GONE: Final = "flintmqMasterGone"
ROLE: Final = "brokerRole"
BROKER_ID: Final = "brokerId"

ROLE_KEYS: Final = frozenset({FENCED, LOG_END, MASTER_GONE, ROLE, BROKER_ID})


def change_role(texts: Mapping[str, str], state: BrokerState, peer: Peer) -> Outcome:
    """Serve a change of settings that has one of `ROLE_KEYS`."""
    if others := texts.keys() - ROLE_KEYS:
        _refuse(f"{min(others)} cannot be changed together with a role")
    if state.next_role is not None:
        _refuse("the broker is about to change its role already")
    if FENCED in texts:
        return _fence(texts, state, peer)
    try:
        role, broker_id = read_role(texts.get(ROLE, "")), int(texts.get(BROKER_ID, ""))
    except ValueError:
        _refuse("a role needs brokerRole (ASYNC_MASTER, SYNC_MASTER or SLAVE) and brokerId")
    if role.is_master != (broker_id == 0) or broker_id < 0:
        _refuse(f"brokerId {broker_id} is not for {role.value}: a master has 0, a slave more")
    _check(state, role, texts.get(LOG_END))
    log.warning("%s: the role changes to %s with the id %d", peer.address, role.value, broker_id)
    state.is_read_only = True
    state.next_role = NextRole(role, broker_id, copies_tables=MASTER_GONE not in texts)
    return Answer()


def _fence(texts: Mapping[str, str], state: BrokerState, peer: Peer) -> Outcome:
    fenced = texts[FENCED].lower() == "true"
    if len(texts) > 1:
        _refuse(f"{FENCED} stands alone")
    if not state.config.role.is_master:
        _refuse("a slave takes no sends: there is nothing to fence")
    if fenced != state.is_fenced:
        log.warning("%s: the broker is %s", peer.address, "fenced" if fenced else "not fenced now")
    state.is_fenced = state.is_read_only = fenced
    return Answer()


def _check(state: BrokerState, role: BrokerRole, log_end: str | None) -> None:
    if state.config.role.is_master:
        if not state.is_fenced:
            _refuse("the master is not fenced: it might still take sends")
        if role.is_master:
            _refuse("this is a master already")
        return
    if role.is_master and log_end != str(state.log.end_offset):
        _refuse(f"the log ends at {state.log.end_offset}, not at {log_end or 'a place you name'}")


def _refuse(reason: str) -> NoReturn:
    raise Refusal(ResponseCode.INVALID_PARAMETER, f"{reason}; nothing was changed")
