"""The methods of `flintmq.Admin` and `flintmq.aio.Admin`, in one table.

    AdminMethods.lag = Method(group_lag) ─┬─► flintmq.Admin().lag("g")            ─► GroupLag
                                          └─► await flintmq.aio.Admin().lag("g")  ─► GroupLag

Each method is a conversation of `core.admin` and is documented there; it is called without its
first argument, the name servers.  Names are whole names: a namespace is part of them.

Invariant: both faces have every method of the table, with the same arguments and results.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import wraps
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from flintmq.client.engine import fork
from flintmq.client.engine.client_config import ClientSettings, split_settings
from flintmq.client.hooks.request_hooks import run_before
from flintmq.core.admin import cluster as cluster_admin
from flintmq.core.admin import dead_letters as letters
from flintmq.core.admin import groups as group_admin
from flintmq.core.admin import messages as message_admin
from flintmq.core.admin import offsets as offset_admin
from flintmq.core.admin import spans
from flintmq.core.admin import topics as topic_admin
from flintmq.core.admin.group_diagnosis import GroupDiagnosis, diagnose_group
from flintmq.core.admin.lag import group_lag
from flintmq.core.conversation import Call, PausingConversation
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.routes import NameServers
from flintmq.errors import InvalidSetting, WrongState
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.net.clock import wall_ms

P = ParamSpec("P")
T = TypeVar("T")


class Method(Generic[P, T]):
    """A method that holds a conversation to its end: called on one face, awaited on the other."""

    def __init__(self, talk: Callable[Concatenate[NameServers, P], PausingConversation[T]]) -> None:
        @wraps(talk)
        def method(admin: ThreadedAdmin | AsyncAdmin, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            return admin.hold(talk(admin.name_servers, *args, **kwargs))

        self._method = method

    @overload
    def __get__(self, admin: None, owner: type) -> Callable[..., Any]: ...

    @overload
    def __get__(self, admin: ThreadedAdmin, owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, admin: AsyncAdmin, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, admin: ThreadedAdmin | AsyncAdmin | None, owner: type) -> Callable[..., Any]:
        return self._method if admin is None else MethodType(self._method, admin)


def _apply_reset(
    namesrv: NameServers, plan: offset_admin.ResetPlan
) -> PausingConversation[Mapping[QueueRef, QueueOffset]]:
    """Set the offsets of a group as a plan says."""
    del namesrv  # the plan has the addresses
    return offset_admin.apply_reset(plan)


def _diagnose(namesrv: NameServers, group: str) -> PausingConversation[GroupDiagnosis]:
    """Who is in a group, whether they agree, and why a queue is behind."""
    return diagnose_group(namesrv, group, now_ms=wall_ms())


def _replay(
    namesrv: NameServers,
    group: str,
    letter: letters.BuriedMessage,
    *,
    to: letters.ReplayTo = letters.ReplayTo.GROUP,
) -> PausingConversation[SendReceipt]:
    """Send a dead letter again.  How many a second is the caller's to decide."""
    return letters.replay(namesrv, group, letter, to=to, now_ms=wall_ms())


@dataclass(frozen=True, slots=True)
class _NoSettings:
    """An admin has only the settings of every client."""


class AdminMethods:
    """Settings, connection state and the table of methods that both faces have."""

    def __init__(self, settings: ClientSettings) -> None:
        self._config, _ = split_settings(settings, _NoSettings)
        if self._config.namespace:
            reason = "an admin takes whole names; put the namespace into them"
            raise InvalidSetting("namespace", self._config.namespace, reason)
        self.name_servers = NameServers(self._config.name_servers)
        self._account = self._config.account
        self._is_closed = False
        self._born = fork.generation()

    def __repr__(self) -> str:
        return f"<Admin of {';'.join(self.name_servers.addresses)}>"

    def _prepared(self, call: Call) -> Call:
        """The call as it goes out: seen by the hooks and signed."""
        fork.check_generation(self._born, "this Admin")
        if self._is_closed:
            raise WrongState("this Admin", "closed", "make another one")
        request = run_before(self._config.request_hooks, call.address, call.request)
        if self._account is not None:
            request = self._account.sign(request)
        return Call(call.address, request, call.timeout_ms)

    # The cluster
    cluster = Method(cluster_admin.fetch_cluster)
    route = Method(cluster_admin.require_route)
    broker_figures = Method(cluster_admin.broker_figures)
    broker_settings = Method(cluster_admin.broker_settings)
    change_broker_settings = Method(cluster_admin.change_broker_settings)

    # Topics and queues
    topics = Method(topic_admin.list_topics)
    describe_topic = Method(topic_admin.describe_topic)
    topic_stats = Method(topic_admin.topic_stats)
    create_topic = Method(topic_admin.create_topic)
    update_topic = Method(topic_admin.update_topic)
    delete_topic = Method(topic_admin.delete_topic)
    extent = Method(spans.queue_extent)
    offset_at = Method(spans.queue_offset_at)
    earliest_ms = Method(spans.queue_earliest_ms)

    # Groups
    groups = Method(group_admin.list_groups)
    create_group = Method(group_admin.create_group)
    delete_group = Method(group_admin.delete_group)
    members = Method(group_admin.fetch_members)
    producers = Method(group_admin.fetch_producers)
    describe_consumer = Method(group_admin.describe_consumer)
    diagnose = Method(_diagnose)
    lag = Method(group_lag)
    offsets = Method(offset_admin.fetch_offsets)
    plan_reset = Method(offset_admin.plan_reset)
    plan_like = Method(offset_admin.plan_like)
    apply_reset = Method(_apply_reset)
    clone_offsets = Method(offset_admin.clone_offsets)

    # Messages
    message_at = Method(message_admin.message_at)
    messages_by_id = Method(message_admin.messages_by_id)
    messages_by_key = Method(message_admin.messages_by_key)
    messages_by_time = Method(message_admin.messages_by_time)
    consume_directly = Method(message_admin.consume_directly)
    locate_spans = Method(spans.locate_spans)
    dead_letter_counts = Method(letters.count_dead_letters)
    dead_letter_spans = Method(letters.dead_letter_spans)
    replay = Method(_replay)
    dead_letters = Method(letters.list_dead_letters)


class ThreadedAdmin(AdminMethods):
    """The face whose methods are called and return when the answer is there."""

    @abstractmethod
    def hold(self, conversation: PausingConversation[T]) -> T:
        """Hold any conversation of `core` over this admin's connections."""


class AsyncAdmin(AdminMethods):
    """The face whose methods are awaited."""

    @abstractmethod
    async def hold(self, conversation: PausingConversation[T]) -> T:
        """Hold any conversation of `core` over this admin's connections."""
