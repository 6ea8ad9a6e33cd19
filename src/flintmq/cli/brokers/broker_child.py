"""One of several broker processes: ``python -m flintmq.cli.brokers.broker_child NAME``.

`broker_group` starts it and speaks with it over its stdin and stdout.  It stops when it gets
SIGTERM, when its stdin ends, because its parent wants that or is gone, and when its disk fails.
Exit codes are those of `server_process`.

Topics that a message makes here are told to the parent; those made elsewhere are made here too.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from flintmq.cli.broker import serve_broker
from flintmq.cli.brokers.child_lines import (
    LINE_BYTES_MAX,
    BrokerReady,
    ChildLine,
    ChildPlan,
    TopicMade,
    line_of,
    read_line,
    read_plan,
)
from flintmq.cli.shared.server_process import serve_until_told, stop_signal
from flintmq.logs import logger

if TYPE_CHECKING:
    from flintmq.broker.server import BrokerServer
    from flintmq.metrics.pages import MetricsServer
    from flintmq.protocol.bodies.topic import TopicConfig

log = logger(__name__)


def main() -> None:
    """Read the plan and serve until told to stop."""
    told = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # who prints disturbs nobody
    plan = read_plan(sys.stdin.fileno())
    serve_until_told(_serve(plan, told), plan.log_level, of=plan.name)


async def _serve(plan: ChildPlan, told: int) -> None:
    stopping = stop_signal()
    tell = partial(_tell, told)
    running: list[BrokerServer] = []
    listening = asyncio.ensure_future(_listen(running, stopping))

    def ready(broker: BrokerServer, pages: MetricsServer | None) -> None:
        running[:] = [broker]
        broker.state.topics.when_made = lambda topic: tell(TopicMade(topic))
        metrics = None if pages is None else str(pages.address)
        tell(BrokerReady(broker.state.address, str(broker.address), metrics))

    try:
        await serve_broker(
            plan.chosen,
            plan.namesrv,
            plan.tls,
            plan.client_tls,
            plan.accounts,
            stopping=stopping,
            ready=ready,
        )
    finally:
        listening.cancel()


def _tell(told: int, what: ChildLine) -> None:
    """One line to the parent; one that is gone hears nothing, and this process stops soon."""
    try:
        os.write(told, line_of(what))
    except OSError as error:
        log.warning("the parent does not listen: %s", error)


async def _listen(running: list[BrokerServer], stopping: asyncio.Event) -> None:
    """Do what the parent tells, until it tells no more; then stop."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        while line := await reader.readline():
            match read_line(line):
                case TopicMade(topic) if running:
                    make_topic(running[0], topic)
                case other:
                    log.warning("not expected of the parent: %s", type(other).__name__)
    except (msgspec.MsgspecError, ValueError) as error:
        log.error("the parent speaks another language: %s", error)  # noqa: TRY400  # that is all
    finally:
        transport.close()
        stopping.set()


def make_topic(broker: BrokerServer, topic: TopicConfig) -> None:
    """Have a topic here that a message made at another broker."""
    topics = broker.state.topics
    if topic.topic_name in topics:
        return
    if topics.is_full:
        log.warning("%s is not created here: there are %d topics", topic.topic_name, len(topics))
        return
    topics.create_or_replace(topic, broker.now_ms())
    broker.turn_is_due()  # it is announced and saved at the end of the turn


if __name__ == "__main__":
    main()
