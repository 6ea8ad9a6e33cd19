"""A master that comes back takes over what consumers committed to the slave that stood in for it.

    before it registers ─► GET_BROKER_MEMBER_GROUP (901): who is there
                       ─► every slave: GET_ALL_CONSUMER_OFFSET (43)
                       ─► for each queue the further offset is stored

It happens before name servers, and with them new consumers, know of the master.  What is committed
to the slave after that, by consumers whose route is old, comes with the slave's next copy.

A slave that cannot be asked is logged and passed over: its next copy brings the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from flintmq.broker.state.broker_state import BrokerState
from flintmq.core.ask import ask, ask_any
from flintmq.core.conversation import Conversation
from flintmq.core.routes import NameServers
from flintmq.errors import FlintError
from flintmq.logs import logger
from flintmq.model.route import MASTER_ID
from flintmq.net.channels.channel_pool import Channels
from flintmq.net.drive import drive_async
from flintmq.protocol.bodies.offset import ConsumerOffsets
from flintmq.protocol.bodies.route import MemberGroup
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.route import BrokerMembersHeader

log = logger(__name__)


async def take_offsets_back(state: BrokerState, namesrv: Sequence[str], outgoing: Channels) -> None:
    """Ask the slaves of this master's name for their offsets, and store those that are further."""
    try:
        slaves = await drive_async(_slaves(state, NameServers(namesrv)), outgoing.make)
    except FlintError as error:
        log.warning("it is not known whether a slave stood in for this master: %s", error)
        return
    for slave in slaves:
        try:
            table = await drive_async(_offsets(slave), outgoing.make)
        except FlintError as error:
            log.warning("what was committed to the slave comes with its next copy: %s", error)
            continue
        if count := state.offsets.merge(table, state.log.max_offset):
            log.info("%d offsets that were committed to %s are taken over", count, slave)


def _slaves(state: BrokerState, namesrv: NameServers) -> Conversation[list[str]]:
    header = BrokerMembersHeader(
        cluster_name=state.config.cluster, broker_name=state.config.broker_name
    )
    reply = yield from ask_any(namesrv, RequestCode.GET_BROKER_MEMBER_GROUP, header)
    members = MemberGroup.from_body(reply.body).broker_member_group
    addresses = {} if members is None else members.broker_addrs
    return [addresses[at] for at in sorted(addresses) if at != MASTER_ID]


def _offsets(slave: str) -> Conversation[ConsumerOffsets]:
    reply = yield from ask(slave, RequestCode.GET_ALL_CONSUMER_OFFSET)
    return ConsumerOffsets.from_body(reply.body)
