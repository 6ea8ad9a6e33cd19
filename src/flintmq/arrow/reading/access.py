"""The connection settings of a cluster, for driver and executors; they travel with every task.

Invariant: an `Access` pickles, and shows no secret when it is printed.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeVar

from flintmq.arrow.reading.patience import RETRY_MS
from flintmq.core.account import Account
from flintmq.core.conversation import Call, PausingConversation
from flintmq.core.routes import NameServers
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.blocking.blocking_channel import BlockingChannel
from flintmq.net.drive import drive
from flintmq.net.tls import ClientTls
from flintmq.protocol.command import Command

T = TypeVar("T")

CLIENT_ID: Final = f"{socket.gethostname()}@{os.getpid()}#spark"
"""Who a process of Spark is to brokers that it makes a group known to."""


@dataclass(frozen=True, slots=True)
class Access:
    """The name servers of a cluster, and the credentials for them and the brokers."""

    name_servers: tuple[str, ...]
    namespace: str = ""
    account: Account | None = None
    tls: ClientTls | None = None
    retry_ms: int = RETRY_MS
    """How long servers that do not answer are asked again."""

    def open(self) -> Line:
        return Line(self)


class Line:
    """Connections of one thread to the cluster, made as they are needed."""

    def __init__(self, access: Access) -> None:
        self.namesrv = NameServers(access.name_servers)
        self._account = access.account
        self._channels = BlockingChannels(tls=access.tls)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def hold(self, conversation: PausingConversation[T]) -> T:
        """Run a conversation to its end; returns its result or raises its error."""
        return drive(conversation, self.make)

    def make(self, call: Call) -> Command:
        """Send one request and wait for its response."""
        return self._channels.make(Call(call.address, self._signed(call.request), call.timeout_ms))

    def start(self, call: Call) -> Started:
        """Send a request without waiting; `Started.finish` waits for the response."""
        channel = self._channels.reach(call.address, call.timeout_ms)
        token = channel.start(self._signed(call.request), call.timeout_ms)
        return Started(channel, token)

    def close(self) -> None:
        self._channels.close()

    def _signed(self, request: Command) -> Command:
        return request if self._account is None else self._account.sign(request)


class Started:
    """A request in flight."""

    def __init__(self, channel: BlockingChannel, token: int) -> None:
        self._channel = channel
        self._token = token

    def finish(self) -> Command:
        """Wait for the response, whatever its code; `Unreachable` when there will be none."""
        return self._channel.finish(self._token)

    def abandon(self) -> None:
        """Drop the response when it comes."""
        self._channel.abandon(self._token)
