"""What an administrator asks and changes, from a thread.  `admin_aio` has the same for asyncio.

    with Admin(namesrv="127.0.0.1:9876") as admin:
        admin.create_topic("orders", queues=8)
        print(admin.lag("billing").lag)

Each method is a conversation of `core` and is documented there; it is given without its first
argument, the name servers.  Names are whole names: a namespace is part of them.

Methods may be called from several threads; they take turns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar, Unpack

from flintmq.client.engine import fork
from flintmq.client.engine.client_config import ClientConfig, ClientSettings
from flintmq.client.hooks.request_hooks import run_after, run_before
from flintmq.core.admin import cluster as admin_cluster
from flintmq.core.admin import groups as admin_groups
from flintmq.core.admin import messages as admin_messages
from flintmq.core.admin import offsets as admin_offsets
from flintmq.core.admin import spans
from flintmq.core.admin import topics as admin_topics
from flintmq.core.admin.dead_letters import (
    DeadLetter,
    ReplayTo,
    count_dead_letters,
    dead_letter_spans,
    list_dead_letters,
    replay,
)
from flintmq.core.admin.group_diagnosis import GroupDiagnosis, diagnose_group
from flintmq.core.admin.lag import group_lag
from flintmq.core.conversation import Call, PausingConversation
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.reading.read_span import EVERYTHING, OnBad, SpanReader, Wanted, ignore
from flintmq.core.routes import NameServers
from flintmq.errors import InvalidSetting, WrongState
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.clock import wall_ms
from flintmq.net.drive import drive
from flintmq.protocol.command import Command

P = ParamSpec("P")
T = TypeVar("T")


def admin_config(settings: ClientSettings) -> ClientConfig:
    config = ClientConfig(**settings)
    if config.namespace:
        reason = "an admin takes whole names; put the namespace into them"
        raise InvalidSetting("namespace", config.namespace, reason)
    return config


def _held(
    talk: Callable[Concatenate[NameServers, P], PausingConversation[T]],
) -> Callable[Concatenate[Admin, P], T]:
    """A method that holds a conversation to its end."""

    @wraps(talk)
    def method(self: Admin, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.hold(talk(self.name_servers, *args, **kwargs))

    return method


class Admin:
    """A connection to a cluster.  Nothing is sent before the first question."""

    def __init__(self, **settings: Unpack[ClientSettings]) -> None:
        self._config = admin_config(settings)
        self.name_servers = NameServers(self._config.name_servers)
        self._channels = BlockingChannels(
            tls=self._config.client_tls, connect_ms=self._config.connect_ms
        )
        self._account = self._config.account
        self._lock = threading.Lock()
        self._closed = False
        self._born = fork.generation()

    def __repr__(self) -> str:
        return f"<Admin of {';'.join(self.name_servers.addresses)}>"

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._channels.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # The cluster
    cluster = _held(admin_cluster.fetch_cluster)
    route = _held(admin_cluster.require_route)
    broker_figures = _held(admin_cluster.broker_figures)
    broker_settings = _held(admin_cluster.broker_settings)
    change_broker_settings = _held(admin_cluster.change_broker_settings)

    # Topics and queues
    topics = _held(admin_topics.list_topics)
    describe_topic = _held(admin_topics.describe_topic)
    topic_stats = _held(admin_topics.topic_stats)
    create_topic = _held(admin_topics.create_topic)
    update_topic = _held(admin_topics.update_topic)
    delete_topic = _held(admin_topics.delete_topic)
    extent = _held(spans.queue_extent)
    offset_at = _held(spans.queue_offset_at)
    earliest_ms = _held(spans.queue_earliest_ms)

    # Groups
    groups = _held(admin_groups.list_groups)
    create_group = _held(admin_groups.create_group)
    delete_group = _held(admin_groups.delete_group)
    members = _held(admin_groups.fetch_members)
    producers = _held(admin_groups.fetch_producers)
    describe_consumer = _held(admin_groups.describe_consumer)
    lag = _held(group_lag)
    offsets = _held(admin_offsets.fetch_offsets)
    plan_reset = _held(admin_offsets.plan_reset)
    plan_like = _held(admin_offsets.plan_like)
    clone_offsets = _held(admin_offsets.clone_offsets)

    # Messages
    message_at = _held(admin_messages.message_at)
    messages_by_id = _held(admin_messages.messages_by_id)
    messages_by_key = _held(admin_messages.messages_by_key)
    messages_by_time = _held(admin_messages.messages_by_time)
    consume_directly = _held(admin_messages.consume_directly)
    locate_spans = _held(spans.locate_spans)
    dead_letters = _held(list_dead_letters)
    dead_letter_counts = _held(count_dead_letters)
    dead_letter_spans = _held(dead_letter_spans)

    def apply_reset(self, plan: admin_offsets.ResetPlan) -> Mapping[QueueRef, QueueOffset]:
        """Go where a plan leads."""
        return self.hold(admin_offsets.apply_reset(plan))

    def diagnose(self, group: str) -> GroupDiagnosis:
        """Who is in a group, whether they agree, and why a queue is behind."""
        return self.hold(diagnose_group(self.name_servers, group, now_ms=wall_ms()))

    def replay(
        self,
        group: str,
        letter: DeadLetter,
        *,
        to: ReplayTo = ReplayTo.GROUP,
    ) -> SendReceipt:
        """Send a dead letter again.  How many a second is the caller's to decide."""
        now_ms = wall_ms()
        return self.hold(replay(self.name_servers, group, letter, to=to, now_ms=now_ms))

    def read(
        self,
        located: spans.LocatedSpan,
        wanted: Wanted = EVERYTHING,
        *,
        on_bad: OnBad = ignore,
    ) -> Iterator[ReceivedMessage]:
        """The messages of a span, pulled as they are asked for.

        One that cannot be decoded comes as it is stored, and ``on_bad`` is told of it.
        """
        reader = SpanReader(located.span, located.address, wanted=wanted)
        while (call := reader.call()) is not None:
            with self._lock:
                reply = self._make(call)
            yield from reader.answered(reply).shown(wanted, on_bad)

    def hold(self, conversation: PausingConversation[T]) -> T:
        """Hold any conversation of `core` over this admin's connections."""
        with self._lock:
            return drive(conversation, self._make)

    def _make(self, call: Call) -> Command:
        fork.check_generation(self._born, "this Admin")
        if self._closed:
            raise WrongState("this Admin", "closed", "make another one")
        hooks = self._config.request_hooks
        request = run_before(hooks, call.address, call.request)
        if self._account is not None:
            request = self._account.sign(request)
        answer: Command | None = None
        try:
            answer = self._channels.make(Call(call.address, request, call.timeout_ms))
            return answer
        finally:
            run_after(hooks, call.address, request, answer)
