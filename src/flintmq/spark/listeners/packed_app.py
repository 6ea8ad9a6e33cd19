"""An app as it travels to the driver's source process and to executors.

Functions that can be imported there go by name; those of the program itself and of modules that
are not installed go by value, with what they refer to.  So a listener in a script, in a notebook
or beside the current directory runs on a cluster that knows nothing of it but flintmq.

Refuses what only makes sense in one process: a store of offsets, a function told of queues,
traces.

Invariant: what `pack` gives can be read by `unpack` wherever flintmq is installed.
"""

from __future__ import annotations

import pickle
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pyspark import cloudpickle as untyped

from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.push.push_settings import PushConfig, read_settings
from flintmq.core.group.app import App, AppListener
from flintmq.core.group.subscriptions import Subscriptions, TopicSubscription
from flintmq.errors import InvalidSetting
from flintmq.spark.reading.access import Access

_ELSEWHERE: Final = {
    "offset_store": "on Spark the broker keeps the offsets",
    "on_queues": "on Spark queues are gained and lost in another process",
    "trace": "listeners on Spark leave no traces; their outcomes are rows",
    "trace_topic": "listeners on Spark leave no traces; their outcomes are rows",
}
"""Settings of a push consumer that cannot be kept here, and why."""

cloudpickle: Any = untyped
"""What Spark itself uses; it comes without types."""

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, slots=True)
class Program:
    """Everything about an app that another process has to know."""

    access: Access
    common: ClientConfig
    config: PushConfig
    listeners: tuple[AppListener, ...]

    @property
    def subscriptions(self) -> tuple[TopicSubscription, ...]:
        return tuple(each.subscription for each in self.listeners)

    @property
    def has_ordered(self) -> bool:
        """Whether any topic is consumed in order."""
        wanted = Subscriptions(self.config, self.subscriptions, 0)
        return any(wanted.is_ordered(each.topic) for each in wanted)


def read_program(app: App) -> Program:
    """Check an app, and take out of it what travels."""
    if not app.listeners:
        raise InvalidSetting("app", repr(app), "it has no listeners")
    for name, reason in _ELSEWHERE.items():
        if app.settings.get(name):
            raise InvalidSetting(name, str(app.settings[name])[:80], reason)
    common, config = read_settings(app.group, app.settings)
    access = Access(common.name_servers, common.namespace, common.account, common.client_tls)
    program = Program(access, common, config, app.listeners)
    Subscriptions(config, program.subscriptions, 0)  # refuses what cannot be subscribed to
    return program


def pack(program: Program) -> bytes:
    """The program as bytes; local modules go along by value."""
    modules = list(_local_modules(program))
    added = [each for each in modules if each.__name__ not in _registered()]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        packed: bytes = cloudpickle.dumps(program)
    except Exception as error:
        names = ", ".join(_name_of(each.function) for each in program.listeners)
        reason = f"cannot be sent to executors: {type(error).__name__}: {error}"
        raise InvalidSetting("listener", names, reason) from error
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)
    return packed


def unpack(packed: bytes) -> Program:
    """The program again.  What it goes by name has to be installed here."""
    program = pickle.loads(packed)  # noqa: S301  # our own driver made it
    assert isinstance(program, Program)
    return program


def _local_modules(program: Program) -> Iterator[ModuleType]:
    """The modules of listeners that are not installed, and those that live beside them."""
    roots: set[Path] = set()
    for each in program.listeners:
        name = _module_of(each.function)
        for module in (sys.modules.get(name.partition(".")[0]), sys.modules.get(name)):
            if module is not None and (file := _local_file(module)) is not None:
                roots.add(file.parent.parent if file.name == "__init__.py" else file.parent)
    for name, module in list(sys.modules.items()):
        if name == "__main__" or getattr(module, "__name__", "") != name:
            continue  # the program itself goes by value in any case
        file = _local_file(module)
        if file is not None and any(map(file.is_relative_to, roots)):
            yield module


def _local_file(module: ModuleType) -> Path | None:
    """Where a module is, if it is not an installed one."""
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


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def _registered() -> set[str]:
    return set(cloudpickle.list_registry_pickle_by_value())
