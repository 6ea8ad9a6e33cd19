"""The part of a broker that replicates: slaves it serves, and the master it follows.

A slave may serve slaves too, as in RocketMQ: they get its log, which is its master's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flintmq.broker.replication.ha_master import HaMaster
from flintmq.broker.replication.ha_slave import HaSlave, SyncSoon
from flintmq.broker.replication.returning import take_offsets_back
from flintmq.broker.replication.slave_peers import SlavePeers
from flintmq.broker.state.broker_state import BrokerState
from flintmq.errors import InvalidSetting
from flintmq.model.broker_role import BrokerRole
from flintmq.net.address import PORT_MAX, Address
from flintmq.net.channels.channel_pool import Channels

HA_PORTS_ABOVE = 1
"""RocketMQ's own distance from the port that clients use."""


class Replication:
    """What one broker does about its replicas.  Nothing, unless its settings ask for it."""

    def __init__(
        self,
        state: BrokerState,
        namesrv: Sequence[str],
        outgoing: Channels,
        *,
        acknowledged: Callable[[], None],
        turn_is_due: Callable[[], None],
        sync_soon: SyncSoon,
        clock: Callable[[], int],
    ) -> None:
        self._state = state
        self._namesrv = namesrv
        self._outgoing = outgoing
        self.master: HaMaster | None = None
        self.slave: HaSlave | None = None
        if state.config.ha_port is not None:
            peers = SlavePeers(state.config, namesrv, outgoing)
            state.slaves.slaves_at = peers.slaves_at
            self.master = HaMaster(state, acknowledged, peers.admits)
        if state.config.role is BrokerRole.SLAVE:
            self.slave = HaSlave(state, turn_is_due, sync_soon, clock)

    async def start(self, asked: Address, listening: Address) -> None:
        """Listen for slaves, and follow the master; a master takes offsets back.

        ``asked`` is where the broker was told to listen, ``listening`` where it does.
        """
        if self.master is not None:
            port = self._state.config.ha_port or 0
            if not port and asked.port:
                port = listening.port + HA_PORTS_ABOVE
            if port > PORT_MAX:
                reason = f"slaves cannot be served at {port}: set haListenPort"
                raise InvalidSetting("listen port", str(listening.port), reason)
            await self.master.start(Address(listening.host, port))
            host = Address.parse(self._state.address).host
            self._state.ha_address = str(Address(host, self.master.address.port))
        if self.slave is not None:
            self.slave.start()
        elif self._state.config.acting_master and self._namesrv:
            await take_offsets_back(self._state, self._namesrv, self._outgoing)

    def grown(self) -> None:
        """The log has grown, or more of it is on disk."""
        if self.master is not None:
            self.master.grown()

    async def stop(self) -> None:
        """Serve and follow nobody any more."""
        if self.slave is not None:
            await self.slave.stop()
        if self.master is not None:
            self.master.stop()
