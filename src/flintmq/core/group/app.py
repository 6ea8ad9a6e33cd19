"""An application: listeners on topics, for one group, whoever runs them.

    app = App("billing", namesrv="127.0.0.1:9876")

    @app.listener("orders", tags="paid || refunded", batch_max=32)
    def bill(messages): ...

It holds what was declared and nothing that runs: threads, an event loop and Spark each run the
same object.  Settings are those of a push consumer; who runs the app checks them.

Invariant: each topic is declared once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar, overload

from flintmq.core.group.consumer_settings import check_range
from flintmq.core.group.listener_results import Listener, ListenerResult
from flintmq.core.group.subscriptions import TOPICS_MAX, TopicSubscription
from flintmq.errors import InvalidSetting
from flintmq.filter.tags import ALL
from flintmq.model.group import check_group_name

TableListener: TypeAlias = Callable[[Any], ListenerResult]
"""A function that is given an Arrow table, on Spark."""

L = TypeVar("L", bound=Listener)
T = TypeVar("T", bound=TableListener)

_NOT_SETTINGS: Final = frozenset({"group", "listener"})

_AT_ONCE: Final = {"threads": (1, 1_000), "tasks": (1, 10_000)}


def _check_at_once(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None:
            check_range(name, value, _AT_ONCE[name])


@dataclass(frozen=True, slots=True)
class AppListener:
    """A function, and what it wants."""

    subscription: TopicSubscription
    function: Listener | TableListener
    as_table: bool = False
    """Whether it gets an Arrow table in place of a tuple of messages; on Spark only."""
    threads: int | None = None
    """How many calls may run at once inside one task of Spark."""
    tasks: int | None = None
    """How many tasks of a micro-batch may run it at once, on Spark; as many as fit without it."""


class App:
    """What a program consumes, and with which functions."""

    def __init__(self, group: str, *, namesrv: str | None = None, **settings: Any) -> None:
        check_group_name(group)
        self.group = group
        self._settings: dict[str, Any] = {}
        self._listeners: dict[str, AppListener] = {}
        self.use(**settings)
        if namesrv is not None:
            self.use(namesrv=namesrv)

    def __repr__(self) -> str:
        topics = ", ".join(self._listeners) or "no topics yet"
        return f"<{type(self).__name__} {self.group!r} on {topics}>"

    @property
    def settings(self) -> Mapping[str, Any]:
        """What was given besides the group."""
        return dict(self._settings)

    def use(self, **settings: Any) -> None:
        """Set or change settings, as whoever runs the app knows better."""
        for name in _NOT_SETTINGS & settings.keys():
            raise InvalidSetting(name, str(settings[name]), "an app has no such setting")
        self._settings.update(settings)

    @property
    def listeners(self) -> tuple[AppListener, ...]:
        """In the order in which they were declared."""
        return tuple(self._listeners.values())

    @overload
    def listener(
        self,
        topic: str,
        *,
        tags: str = ALL,
        sql: str | None = None,
        batch_max: int | None = None,
        ordered: bool | None = None,
        as_table: Literal[False] = False,
        threads: int | None = None,
        tasks: int | None = None,
    ) -> Callable[[L], L]: ...

    @overload
    def listener(
        self,
        topic: str,
        *,
        tags: str = ALL,
        sql: str | None = None,
        batch_max: int | None = None,
        ordered: bool | None = None,
        as_table: Literal[True],
        threads: int | None = None,
        tasks: int | None = None,
    ) -> Callable[[T], T]: ...

    def listener(
        self,
        topic: str,
        *,
        tags: str = ALL,
        sql: str | None = None,
        batch_max: int | None = None,
        ordered: bool | None = None,
        as_table: bool = False,
        threads: int | None = None,
        tasks: int | None = None,
    ) -> Callable[[Any], Any]:
        """A decorator: the function gets the messages of the topic, chosen by tags or by SQL92.

        It gets a tuple of at most ``batch_max``; ``ordered`` gives it those of a queue one
        after the other.

        Three are for Spark alone.  ``as_table`` gives an Arrow table in place of the tuple.
        ``threads`` lets so many calls run at once inside a task, for listeners that wait for
        something else; elsewhere the pool of the consumer decides.  ``tasks`` is how many tasks
        of a micro-batch run it at once; a queue that is ordered is never in two of them.
        """
        if not isinstance(topic, str):
            raise InvalidSetting("topic", repr(topic), 'write @app.listener("a topic")')
        wanted = TopicSubscription(topic, tags, sql, batch_max, ordered)
        _check_at_once(threads=threads, tasks=tasks)
        if topic in self._listeners:
            raise InvalidSetting("topic", topic, "has a listener already")
        if len(self._listeners) >= TOPICS_MAX:
            raise InvalidSetting("topic", topic, f"{TOPICS_MAX} at most")

        def declare(function: Any) -> Any:
            if not callable(function):
                raise InvalidSetting("listener", repr(function), "must be a function")
            self._listeners[topic] = AppListener(wanted, function, as_table, threads, tasks)
            return function

        return declare
