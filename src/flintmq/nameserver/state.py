"""The state that the processors of a name server read and change."""

from __future__ import annotations

from collections import Counter

from flintmq.nameserver.config import NameServerConfig
from flintmq.nameserver.replicas import Peer
from flintmq.nameserver.routes import RouteTable
from flintmq.nameserver.settings import Settings
from flintmq.net.address import Address

ROUTE_BODIES_MAX = 20_000
"""Encoded routes kept at once: two forms of ten thousand topics, some 5 MB."""


class NameServerState:
    """Tables, settings and configuration, and the routes that were encoded from them.

    Every client asks for each of its topics every 30 seconds, and brokers rarely change, so
    the bytes of an answer are kept until anything does.
    """

    def __init__(
        self, config: NameServerConfig, settings: Settings, started_ms: int, address: Address
    ) -> None:
        self.config = config
        self.settings = settings
        self.started_ms = started_ms
        self.address = address
        """Where the server listens, when port 0 was asked for."""
        self.routes = RouteTable()
        self.served: Counter[int] = Counter()
        """Requests by code, of the codes that are served."""
        self._reserved: dict[str, str] = {}  # names of brokers, and where they are
        self._bodies: dict[tuple[str, bool], bytes] = {}
        self._bodies_of: tuple[int, int, NameServerConfig] | None = None

    def reserve(self, broker: str, address: str) -> None:
        """From now on only the broker at this address speaks for its name.

        For a broker that lives in the same process and is known to be the right one.
        """
        self._reserved[broker] = address

    def may_speak_for(self, broker: str, address: str, peer: Peer) -> bool:
        """Whether a peer may register a broker, or say that it leaves.

        A name that is reserved is its broker's own: at its address, and over the connection it
        registered with for as long as that is there.
        """
        reserved = self._reserved.get(broker)
        if reserved is None:
            return True
        teller = self.routes.teller(broker)
        return address == reserved and (teller is None or teller is peer)

    def route_body(self, topic: str, *, bare_keys: bool) -> bytes | None:
        """The body that answers who asks for a topic; None for one that is not known."""
        basis = (self.routes.changes, self.settings.changes, self.config)
        if self._bodies_of != basis or len(self._bodies) >= ROUTE_BODIES_MAX:
            self._bodies.clear()
            self._bodies_of = basis
        body = self._bodies.get((topic, bare_keys))
        if body is not None:
            return body
        route = self.routes.route(
            topic,
            order=self.settings.order_of(topic) if self.config.order_message_enable else None,
            acting_masters=self.config.support_acting_master,
        )
        if route is None:
            return None
        body = self._bodies[topic, bare_keys] = route.to_body(bare_keys=bare_keys)
        return body

    def carry(self, delta_ms: int) -> None:
        """The clock was moved by so much: nothing gets older by it."""
        self.started_ms += delta_ms
        self.routes.carry(delta_ms)
