"""What a session of the broker has around it, in a world without sockets."""

from __future__ import annotations

from collections.abc import Callable

from flintmq.access.rules import User
from flintmq.broker.engine import BrokerEngine
from flintmq.broker.requests.peer import Peer
from flintmq.net.channels.channel import Channel
from support.broker.world import World


class Surroundings:
    """Server and channel of one session.  What it writes, whoever inherits this takes."""

    world: World
    user: User | None = None
    frames_behind = 0

    @property
    def engine(self) -> BrokerEngine:
        return self.world.engine

    @property
    def now_ms(self) -> Callable[[], int]:
        return lambda: self.world.now_ms

    def joined(self, peer: Peer, channel: Channel) -> None:
        """The world's peers are not counted."""

    def left(self, peer: Peer) -> None:
        """As above."""

    def turn_is_due(self) -> None:
        """Tests end turns by hand."""

    def flush(self) -> None:
        """Nothing is held back."""

    def has_time(self) -> bool:
        """A test's turn is as long as it likes."""
        return True
