"""A message that comes back is stored by this broker, whoever stored it first."""

from __future__ import annotations

from pathlib import Path

from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.model.host import Host
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.group import SendBackHeader
from support.broker.sends import last_record
from support.broker.world import World

ANOTHER = Host.parse("10.9.8.7:10911")


def test_the_store_host_is_our_own(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        message = NewMessage("T", 0, b"body", {}, world.now_ms, ANOTHER, ANOTHER)
        append(world.state, message, world.now_ms)
        world.settle()
        before = last_record(world, "T", 0)

        header = SendBackHeader(offset=before.log_offset, group="g", delay_level=1)
        world.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)

        after = last_record(world, SCHEDULE_TOPIC, 0)
        assert (before.store_host, before.born_host) == (ANOTHER, ANOTHER)
        assert (after.store_host, after.born_host) == (world.state.host, ANOTHER)
