"""Which addresses slaves may come from, and how many slaves each has.

    on the list ``allowed_slaves``                          admitted
    registered with a name server as a slave of our name    admitted
    neither a list nor a name server                        this machine only

Name servers are asked when somebody connects whom they did not name before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_address, ip_network

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.core.admin.cluster import fetch_cluster
from flintmq.core.routes import NameServers
from flintmq.errors import FlintError
from flintmq.logs import logger
from flintmq.model.route import MASTER_ID
from flintmq.net.address import Address
from flintmq.net.channels.channel_pool import Channels, resolve
from flintmq.net.drive import drive_async

log = logger(__name__)


class SlavePeers:
    """The slaves that one master knows of."""

    def __init__(self, config: BrokerConfig, namesrv: Sequence[str], outgoing: Channels) -> None:
        self._broker_name = config.broker_name
        self._allowed = [ip_network(text) for text in config.replication.allowed_slaves]
        self._namesrv = NameServers(namesrv) if namesrv else None
        self._outgoing = outgoing
        self._registered: Counter[str] = Counter()

    def slaves_at(self, host: str) -> int:
        """How many slaves an address that was admitted may have."""
        return max(1, self._registered[_plain(host)])

    async def admits(self, host: str) -> bool:
        """Whether a slave may come from an address."""
        own = ip_address(_plain(host))
        if any(own in network for network in self._allowed):
            return True
        if self._namesrv is None:
            return not self._allowed and own.is_loopback
        if not self._registered[str(own)]:
            await self._ask(self._namesrv)
        return self._registered[str(own)] > 0

    async def _ask(self, namesrv: NameServers) -> None:
        try:
            cluster = await drive_async(fetch_cluster(namesrv), self._outgoing.make)
            found: Counter[str] = Counter()
            for replicas in cluster.brokers:
                if replicas.broker == self._broker_name:
                    for broker_id, address in replicas.addresses.items():
                        if broker_id != MASTER_ID:
                            packed = await resolve(Address.parse(address))
                            found[str(ip_address(packed))] += 1
        except FlintError as error:
            log.warning("it is not known which slaves are registered: %s", error)
        else:
            self._registered = found


def _plain(host: str) -> str:
    """An address as it is compared: without a zone, and IPv4 as such."""
    own = ip_address(host.partition("%")[0])
    mapped = getattr(own, "ipv4_mapped", None)
    return str(mapped or own)
