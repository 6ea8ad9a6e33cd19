"""Pickles an app for the source process and for executors.

Functions of installed modules are pickled by name; those of the program itself and of modules that
are not installed by value, with what they refer to.  So a listener in a script, in a notebook or
beside the current directory runs on a cluster that has only flintmq installed.

Refuses settings that only work in one process: an offset store, ``on_queues``, traces.

Invariant: what `pack` gives can be read by `unpack` wherever flintmq is installed.
"""

from __future__ import annotations

import pickle
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pyspark import cloudpickle as untyped

from flintmq.arrow.reading.access import Access
from flintmq.arrow.reading.patience import RETRY_MS
from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.push.push_settings import PushConfig, read_settings
from flintmq.core.group.app import App, AppListener
from flintmq.core.group.subscriptions import Subscriptions, TopicSubscription
from flintmq.errors import InvalidSetting
from flintmq.model.group import with_namespace
from flintmq.spark.outcomes.circuit_breaker import listener_name

_ELSEWHERE: Final = {
    "offset_store": "on Spark the broker keeps the offsets",
    "on_queues": "on Spark queues are gained and lost in another process",
    "trace": "listeners on Spark leave no traces; their outcomes are rows",
    "trace_topic": "listeners on Spark leave no traces; their outcomes are rows",
}
"""Settings of a push consumer that do not work on Spark, and why."""

cloudpickle: Any = untyped
"""Spark's own copy, which has no types."""

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, slots=True)
class Program:
    """The settings and listeners of an app, as other processes need them."""

    access: Access
    common: ClientConfig
    config: PushConfig
    listeners: tuple[AppListener, ...]
    failures_max: int | None = None
    """Calls of a listener that may raise in a row; see `flintmq.spark.outcomes.circuit_breaker`."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of an app that pops, as they were given."""

    @property
    def pops(self) -> bool:
        """Whether messages are popped, and queues are nobody's own."""
        return self.config.mode == "pop"

    @property
    def subscriptions(self) -> tuple[TopicSubscription, ...]:
        return tuple(each.subscription for each in self.listeners)

    @property
    def tasks_by_topic(self) -> dict[str, int | None]:
        """What listeners say about ``tasks``, by topics as on the wire."""
        namespace = self.config.namespace
        return {
            with_namespace(namespace, each.subscription.topic): each.tasks
            for each in self.listeners
        }

    @property
    def has_ordered(self) -> bool:
        """Whether any topic is consumed in order."""
        wanted = Subscriptions(self.config, self.subscriptions, 0)
        return any(wanted.is_ordered(each.topic) for each in wanted)


def read_program(app: App, retry_ms: int = RETRY_MS, failures_max: int | None = None) -> Program:
    """Check an app; its settings and listeners as a `Program`."""
    if not app.listeners:
        raise InvalidSetting("app", repr(app), "it has no listeners")
    for name, reason in _ELSEWHERE.items():
        if app.settings.get(name):
            raise InvalidSetting(name, str(app.settings[name])[:80], reason)
    given = {name: value for name, value in app.settings.items() if name != "metrics"}
    common, config = read_settings(app.group, given)  # the driver counts, and no task
    access = Access(
        common.name_servers, common.namespace, common.account, common.client_tls, retry_ms
    )
    kept = given if config.mode == "pop" else {}
    program = Program(access, common, config, app.listeners, failures_max, kept)
    if program.pops and program.has_ordered:
        raise InvalidSetting("mode", "pop", "an ordered topic needs mode='pull'")
    Subscriptions(config, program.subscriptions, 0)  # refuses what cannot be subscribed to
    return program


def listener_names(program: Program) -> dict[str, str]:
    """The listeners by topic, as rows name topics."""
    return {each.subscription.topic: listener_name(each.function) for each in program.listeners}


def pack(program: Program) -> bytes:
    """Pickle a program; modules that are not installed are pickled by value."""
    modules = list(_local_modules(program))
    added = [each for each in modules if each.__name__ not in _registered()]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        packed: bytes = cloudpickle.dumps(program)
    except Exception as error:
        names = ", ".join(listener_name(each.function) for each in program.listeners)
        reason = f"cannot be sent to executors: {type(error).__name__}: {error}"
        raise InvalidSetting("listener", names, reason) from error
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)
    return packed


def unpack(packed: bytes) -> Program:
    """Unpickle a program.  Modules that were pickled by name have to be installed here."""
    program = pickle.loads(packed)  # noqa: S301  # our own driver made it
    assert isinstance(program, Program)
    return program


def _local_modules(program: Program) -> Iterator[ModuleType]:
    """The modules of listeners that are not installed, and those in the same directories."""
    roots: set[Path] = set()
    for each in program.listeners:
        name = _module_of(each.function)
        for module in (sys.modules.get(name.partition(".")[0]), sys.modules.get(name)):
            if module is not None and (file := _local_file(module)) is not None:
                roots.add(file.parent.parent if file.name == "__init__.py" else file.parent)
    for name, module in list(sys.modules.items()):
        if name == "__main__" or getattr(module, "__name__", "") != name:
            continue  # the program itself is pickled by value in any case
        file = _local_file(module)
        if file is not None and any(map(file.is_relative_to, roots)):
            yield module


def _local_file(module: ModuleType) -> Path | None:
    """The file of a module; None for an installed one."""
    name = str(getattr(module, "__name__", ""))
    file = getattr(module, "__file__", None)
    if file is None or name.partition(".")[0] in ("flintmq", "pyspark"):
        return None
    path = Path(file).resolve()
    if not _INSTALLED.isdisjoint(path.parts) or path.is_relative_to(_STANDARD):
        return None
    return path


_STANDARD: Final = Path(sysconfig.get_path("stdlib")).resolve()


def _module_of(function: Any) -> str:
    found = getattr(function, "__module__", None) or type(function).__module__
    return str(found)


def _registered() -> set[str]:
    return set(cloudpickle.list_registry_pickle_by_value())
