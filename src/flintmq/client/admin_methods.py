"""The methods of `flintmq.Admin` and `flintmq.aio.Admin`, in one table.

    AdminMethods.lag = Method(group_lag) ─┬─► flintmq.Admin().lag("g")            ─► GroupLag
                                          └─► await flintmq.aio.Admin().lag("g")  ─► GroupLag

Each method is a conversation of `core.admin` and is documented there; it is called without its
first argument, the name servers.  Names are whole names: a namespace is part of them.

Invariant: both faces have every method of the table, with the same arguments and results.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from flintmq.access.needs import ADMINISTRATIVE
from flintmq.client.engine.client_config import ClientSettings, admin_address, split_settings
from flintmq.client.engine.lifecycle import check_generation, generation
from flintmq.client.hooks.request_hooks import run_before
from flintmq.core.admin import broker_status as status_admin
from flintmq.core.admin import cluster as cluster_admin
from flintmq.core.admin import dead_letter_marks as letter_marks
from flintmq.core.admin import dead_letters as letters
from flintmq.core.admin import groups as group_admin
from flintmq.core.admin import messages as message_admin
from flintmq.core.admin import offsets as offset_admin
from flintmq.core.admin import plain_accounts as account_admin
from flintmq.core.admin import spans
from flintmq.core.admin import topics as topic_admin
from flintmq.core.admin import users_and_policies as user_admin
from flintmq.core.admin.group_diagnosis import GroupDiagnosis, diagnose_group
from flintmq.core.admin.lag import every_group_lag, group_lag
from flintmq.core.admin.message_trace import trace_message
from flintmq.core.conversation import Call, PausingConversation
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.promotion import plan_promotion, promote
from flintmq.core.routes import NameServers
from flintmq.errors import InvalidSetting, WrongState
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.net.clock import wall_ms

P = ParamSpec("P")
T = TypeVar("T")


class Method(Generic[P, T]):
    """A method that holds a conversation to its end: called on one face, awaited on the other.

    ``help`` and `inspect` show what is called: its name in the table, no name servers, and the
    result of the conversation.
    """

    def __init__(self, talk: Callable[Concatenate[NameServers, P], PausingConversation[T]]) -> None:
        def method(self: ThreadedAdmin, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return self.hold(talk(self.name_servers, *args, **kwargs))

        async def async_method(self: AsyncAdmin, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return await self.hold(talk(self.name_servers, *args, **kwargs))

        self._talk = talk
        self._method: Callable[..., Any] = method
        self._async_method: Callable[..., Any] = async_method

    def __set_name__(self, owner: type, name: str) -> None:
        shown = _shown_signature(self._talk)
        for method in (self._method, self._async_method):
            method.__name__, method.__qualname__ = name, f"Admin.{name}"
            method.__doc__ = self._talk.__doc__
            method.__annotations__ = {
                each.name: each.annotation for each in list(shown.parameters.values())[1:]
            } | {"return": shown.return_annotation}
            method.__signature__ = shown  # type: ignore[attr-defined]  # what inspect looks for

    @overload
    def __get__(self, admin: None, owner: type) -> Callable[..., Any]: ...

    @overload
    def __get__(self, admin: ThreadedAdmin, owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, admin: AsyncAdmin, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, admin: ThreadedAdmin | AsyncAdmin | None, owner: type) -> Callable[..., Any]:
        method = self._async_method if issubclass(owner, AsyncAdmin) else self._method
        return method if admin is None else MethodType(method, admin)


def _shown_signature(talk: Callable[..., object]) -> inspect.Signature:
    """The signature of a conversation as a method: without name servers, with its result."""
    signature = inspect.signature(talk)
    _, *others = signature.parameters.values()
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    result = str(signature.return_annotation)
    return inspect.Signature(
        [own, *others], return_annotation=result.partition("[")[2].removesuffix("]")
    )


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


class AdminSettings(ClientSettings, total=False):
    """Keyword arguments of an admin."""

    admin_at: str | None


@dataclass(frozen=True, slots=True)
class _OwnSettings:
    """The settings of an admin besides those of every client."""

    admin_at: str | None = None
    """Where the broker serves administrative requests (its ``--admin-listen``); without it the
    variable FLINTMQ_ADMIN_AT counts."""


class AdminMethods:
    """Settings, connection state and the table of methods that both faces have."""

    def __init__(self, settings: AdminSettings) -> None:
        self._config, own = split_settings(settings, _OwnSettings)
        self._admin_at = admin_address(own.admin_at)
        self._administered: str | None = None
        if self._config.namespace:
            reason = "an admin takes whole names; put the namespace into them"
            raise InvalidSetting("namespace", self._config.namespace, reason)
        self.name_servers = NameServers(self._config.name_servers)
        self._account = self._config.account
        self._is_closed = False
        self._born = generation()

    def __repr__(self) -> str:
        return f"<Admin of {';'.join(self.name_servers.addresses)}>"

    def _prepared(self, call: Call) -> Call:
        """The call as it goes out: seen by the hooks and signed."""
        check_generation(self._born, "this Admin")
        if self._is_closed:
            raise WrongState("this Admin", "closed", "make another one")
        request = run_before(self._config.request_hooks, call.address, call.request)
        if self._account is not None:
            request = self._account.sign(request)
        return Call(self._address(call), request, call.timeout_ms)

    def _address(self, call: Call) -> str:
        """Where a call goes: administrative ones of the one broker to its address for them."""
        is_plain = call.request.code not in ADMINISTRATIVE
        if self._admin_at is None or is_plain or call.address in self.name_servers.addresses:
            return call.address
        if self._administered not in (None, call.address):
            reason = "it is the address of one broker, and there are several: name one (broker=)"
            raise InvalidSetting("admin_at", self._admin_at, reason)
        self._administered = call.address
        return self._admin_at

    # The cluster
    cluster = Method(cluster_admin.fetch_cluster)
    route = Method(cluster_admin.require_route)
    cluster_status = Method(status_admin.cluster_status)
    broker_figures = Method(cluster_admin.broker_figures)
    broker_settings = Method(cluster_admin.broker_settings)
    change_broker_settings = Method(cluster_admin.change_broker_settings)
    plan_promotion = Method(plan_promotion)
    promote = Method(promote)

    # Access control: ACL 2.0, and accounts of ACL 1.0
    users = Method(user_admin.list_users)
    create_user = Method(user_admin.create_user)
    update_user = Method(user_admin.update_user)
    delete_user = Method(user_admin.delete_user)
    policies = Method(user_admin.list_policies)
    change_policy = Method(user_admin.change_policy)
    delete_policies = Method(user_admin.delete_policies)
    accounts = Method(account_admin.list_accounts)
    change_account = Method(account_admin.change_account)
    delete_account = Method(account_admin.delete_account)

    # Topics and queues
    topics = Method(topic_admin.list_topics)
    describe_topic = Method(topic_admin.describe_topic)
    topic_stats = Method(topic_admin.topic_stats)
    topic_size = Method(topic_admin.topic_size)
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
    set_consume_mode = Method(group_admin.change_consume_mode)
    consume_modes = Method(group_admin.list_consume_modes)
    members = Method(group_admin.fetch_members)
    producers = Method(group_admin.fetch_producers)
    describe_consumer = Method(group_admin.describe_consumer)
    diagnose = Method(_diagnose)
    lag = Method(group_lag)
    every_lag = Method(every_group_lag)
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
    trace = Method(trace_message)
    consume_directly = Method(message_admin.consume_directly)
    locate_spans = Method(spans.locate_spans)
    dead_letter_counts = Method(letters.count_dead_letters)
    dead_letter_spans = Method(letters.dead_letter_spans)
    replay = Method(_replay)
    dead_letter_marks = Method(letter_marks.fetch_marks)
    mark_dead_letters = Method(letter_marks.move_marks)
    replays = Method(letter_marks.fetch_replays)
    purge_dead_letters = Method(letter_marks.purge_dead_letters)
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
