"""The lifecycle that all clients on asyncio share: state, id, events, start and stop.

    created ──start──► running ──stop──► stopped         (`lifecycle` has the whole diagram)

A client is made on any thread and belongs to the loop it is started on.  What a client sends or
consumes is its own; here is only what the program may ask of every client.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.event_log import Event
from flintmq.client.engine.lifecycle import Life, State


class AsyncClient(ABC):
    """The base of `flintmq.aio` clients: one group, one engine, one life."""

    def __init__(self, group: str, engine: ClientEngine, life: Life | None = None) -> None:
        """``life`` is given by a client that replaces its engine when it is started again."""
        self._group = group
        self._engine = engine
        self._life = engine.life if life is None else life

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.group!r}, {self.state}>"

    @property
    def group(self) -> str:
        return self._group

    @property
    def state(self) -> State:
        return self._life.state

    @property
    def client_id(self) -> str:
        return self._engine.client_id

    def events(self, kind: str | None = None) -> list[Event]:
        """The last errors and changes of this client, oldest first."""
        return self._engine.events.latest(kind=kind)

    def require_running(self) -> None:
        """Raise `WrongState` unless the client runs, and runs in this process."""
        self._life.require_running()

    @abstractmethod
    async def start(self) -> Self: ...

    @abstractmethod
    async def stop(self) -> object: ...

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()
