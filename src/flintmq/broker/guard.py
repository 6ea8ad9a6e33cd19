"""The rate of requests, then access control, before every session of a broker.

A change of the rules ends held pulls: whoever waited may not be allowed to any more.
"""

from __future__ import annotations

from collections.abc import Callable

from flintmq.access.rights import Context
from flintmq.broker.engine import BrokerEngine
from flintmq.broker.scheduled.redelivery import topic_at
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.session import Session
from flintmq.net.servers.access_gate import Auditor, access_gate
from flintmq.net.servers.rate_gate import RateGate, RequestRates
from flintmq.net.servers.server import Gate, no_gate


def broker_guard(engine: BrokerEngine, clock: Callable[[], int], auditor: Auditor | None) -> Gate:
    """The gate of a broker: its limit of requests, and its accounts where it has any."""
    state = engine.state
    rates = RequestRates(lambda: state.config.requests_per_second_max, clock, state.refusals)
    access = _access(engine, clock, auditor)

    def gate(session: Session, channel: Channel) -> Session:
        return RateGate(access(session, channel), channel, rates)

    return gate


def _access(engine: BrokerEngine, clock: Callable[[], int], auditor: Auditor | None) -> Gate:
    state = engine.state
    if state.accounts is None:
        return no_gate
    context = Context(state.config.cluster, lambda offset: topic_at(state, offset))
    state.accounts.changed.append(lambda: engine.release_holds(clock()))
    control = state.accounts.protect(context)
    state.may_publish = control.may_publish
    return access_gate(control, auditor)
