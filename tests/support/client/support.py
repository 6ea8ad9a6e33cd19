"""What the tests of clients share: loops that must end clean, and a look at what was stored."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import FlintError
from flintmq.model.message import ReceivedMessage
from flintmq.model.route import Route
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.loop import new_event_loop
from flintmq.protocol.bodies.route import TopicRoute
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.protocol.headers.pull import PullAnswer, PullMessage
from flintmq.protocol.headers.topic import CreateTopic
from flintmq.protocol.records.received import decode_messages
from support.net.support import PATIENCE_S, other_tasks

T = TypeVar("T")

CALL_MS = 15_000


class Cluster(Protocol):
    """Servers that can be asked for what is stored, ours or others."""

    @property
    def namesrv(self) -> str: ...


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run on a loop of its own; no task may outlive it, no error go unseen."""

    async def watched() -> T:
        unseen: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
        result = await main
        await asyncio.sleep(0)
        assert not other_tasks()
        assert not unseen
        return result

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(watched())


def wait_for(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait on a thread for a condition; fail when it does not come true."""
    deadline_s = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come true"
        threading.Event().wait(0.005)


def in_enough_time(check: Callable[[int], None]) -> None:
    """Check what happens within a timeout; again with more time if this machine was too slow."""
    for timeout_ms in (300, 3_000):
        try:
            return check(timeout_ms)
        except (AssertionError, FlintError, pytest.fail.Exception):
            continue
    return check(30_000)


@contextmanager
def nothing_left() -> Iterator[None]:
    """No thread of a client and no descriptor may be left behind."""
    threads, open_before = client_threads(), sockets()
    yield
    wait_for(lambda: client_threads() <= threads)  # one of another test may have ended meanwhile
    wait_for(lambda: sockets() <= open_before)


def sockets() -> int:
    """Open sockets and event loops; the files of the embedded store come and go."""
    links = Path("/proc/self/fd")
    if not links.exists():  # not on this system
        return 0
    return sum(_target(link).startswith(("socket:", "anon_inode:")) for link in links.iterdir())


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed meanwhile
        return ""


def client_threads() -> set[str]:
    """Threads of clients by name; those of the embedded servers do not count."""
    servers = ("flintmq-embedded", "flintmq-tables", "flintmq-sync")
    return {
        f"{thread.name} {thread.ident}"
        for thread in threading.enumerate()
        if thread.name.startswith("flintmq") and not thread.name.startswith(servers)
    }


def create_topic(servers: EmbeddedBroker, topic: str, queues: int = 4, permission: int = 6) -> None:
    header = CreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=permission,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )
    with BlockingChannels() as channels:
        for address in servers.brokers:
            command = request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
            assert channels.call(address, command, CALL_MS).code == ResponseCode.SUCCESS
    wait_for(lambda: len(_route(servers, topic).brokers) == len(servers.brokers))


def _route(servers: Cluster, topic: str) -> Route:
    with BlockingChannels() as channels:
        command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, OfTopic(topic=topic))
        reply = channels.call(servers.namesrv.split(";")[0], command, CALL_MS)
    if reply.code != ResponseCode.SUCCESS:
        return Route((), ())
    return TopicRoute.from_body(reply.body).to_route()


def stored(servers: Cluster, topic: str) -> list[ReceivedMessage]:
    """All messages of a topic, in the order of their storage."""
    found: list[ReceivedMessage] = []
    route = _route(servers, topic)
    with BlockingChannels() as channels:
        for queue in route.subscribe_queues(topic):
            address = route.address(queue.broker)
            assert address is not None
            found += _read(channels, address, topic, queue.queue_id)
    return sorted(found, key=lambda message: (message.store_ms, message.log_offset))


def _read(
    channels: BlockingChannels, address: str, topic: str, queue_id: int
) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    offset = 0
    while True:
        header = PullMessage(
            consumer_group="readers",
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=4,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
        )
        reply = channels.call(address, request(RequestCode.PULL_MESSAGE, header), CALL_MS)
        if reply.code != ResponseCode.SUCCESS:
            return found
        found += decode_messages(reply.body, broker="broker-a", queue_id=queue_id).messages
        offset = reply.header(PullAnswer).next_begin_offset
