"""Hooks see what is sent and given back; one that fails changes nothing, one before may refuse."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from flintmq.broker.requests.hooks import BrokerSend, BrokerSent, SentBack
from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.errors import DiskFailed
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.headers.group import SendBackHeader
from flintmq.protocol.headers.send import SendAnswer, SendMessage, SendRefusal
from flintmq.protocol.records.batch import BatchEntry, encode_batch
from support.broker.heartbeats import heartbeat
from support.broker.sends import ask
from support.broker.world import World, header_of


def test_a_hook_before_a_send_sees_it_as_it_came(tmp_path: Path) -> None:
    seen: list[BrokerSend] = []
    with World(tmp_path) as world:
        world.state.hooks.before_send.append(seen.append)

        answer = ask(world, "T", b"body", queue_id=-1, properties="a\x011\x02")

        assert answer.code == ResponseCode.SUCCESS
        assert seen == [BrokerSend(world.peer, "producers", "T", -1, b"body", {"a": "1"})]


def test_a_hook_before_a_send_may_refuse_it(tmp_path: Path) -> None:
    def refuse(_: BrokerSend) -> None:
        raise Refusal(ResponseCode.NO_PERMISSION, "not today")

    later: list[BrokerSend] = []
    with World(tmp_path) as world:
        world.state.hooks.before_send += [refuse, later.append]

        answer = ask(world, "T")

        assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "not today")
        assert header_of(answer, SendRefusal).region == "DefaultRegion"
        assert "T" not in world.state.topics
        assert not later


def test_a_hook_that_fails_is_logged_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise ValueError("a bug")

    with World(tmp_path) as world, caplog.at_level(logging.ERROR):
        world.state.hooks.before_send.append(fail)
        world.state.hooks.after_send.append(fail)

        answer = ask(world, "T")

        assert answer.code == ResponseCode.SUCCESS
        assert len(caplog.records) == 2


def test_a_hook_after_a_send_is_told_once_its_record_is_written(tmp_path: Path) -> None:
    seen: list[BrokerSent] = []
    with World(tmp_path) as world:
        world.state.hooks.after_send.append(seen.append)
        header = SendMessage(
            topic="T", default_topic="TBW102", queue_id=0, sys_flag=0, born_timestamp=0, flag=0
        )
        opaque = world.submit(RequestCode.SEND_MESSAGE, header, b"x")
        assert not seen

        world.settle()

        (sent,) = seen
        assert sent.sending.topic == "T"
        assert (sent.code, sent.count) == (ResponseCode.SUCCESS, 1)
        assert sent.size_bytes == world.state.log.end_offset
        assert sent.message_id == header_of(world.answer_to(opaque), SendAnswer).msg_id


def test_a_batch_is_told_as_one(tmp_path: Path) -> None:
    seen: list[BrokerSent] = []
    with World(tmp_path) as world:
        world.state.hooks.after_send.append(seen.append)

        ask(world, "T", encode_batch([BatchEntry(b"a"), BatchEntry(b"b")]), is_batch=True)

        (sent,) = seen
        assert sent.count == 2
        assert len(sent.message_id.split(",")) == 2
        assert sent.size_bytes == world.state.log.end_offset


def test_a_hook_after_a_send_is_told_of_refusals(tmp_path: Path) -> None:
    seen: list[BrokerSent] = []
    with World(tmp_path) as world:
        world.state.hooks.after_send.append(seen.append)

        ask(world, "")

        (sent,) = seen
        assert (sent.code, sent.message_id, sent.count) == (ResponseCode.INVALID_PARAMETER, "", 0)


def test_a_hook_after_a_send_is_told_when_the_disk_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise DiskFailed("file", "write", "full", errno.ENOSPC)

    seen: list[BrokerSent] = []
    with World(tmp_path) as world:
        world.state.hooks.after_send.append(seen.append)
        with monkeypatch.context() as patch:
            patch.setattr(world.state.log._log, "write", refuse)

            answer = ask(world, "T")

        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert [sent.code for sent in seen] == [ResponseCode.SERVICE_NOT_AVAILABLE]


def test_a_reply_is_a_send_to_hooks(tmp_path: Path) -> None:
    seen: list[object] = []
    with World(tmp_path) as world:
        world.state.hooks.before_send.append(seen.append)
        world.state.hooks.after_send.append(seen.append)
        asker = Peer("127.0.0.1:50000")
        beat = heartbeat("asker", producers=("p",))
        world.state.clients.heartbeat(beat, asker, "JAVA", 479, world.now_ms)
        header = SendMessage(
            topic="DefaultCluster_REPLY_TOPIC",
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties="REPLY_TO_CLIENT\x01asker\x02",
        )
        world.ask(RequestCode.SEND_REPLY_MESSAGE, header, b"x")

        world.asked[0].then(Command(code=0, flag=1))

        before, after = seen
        assert isinstance(before, BrokerSend)
        assert isinstance(after, BrokerSent)
        assert (after.code, after.count, after.message_id[:16]) == (0, 1, "7F00000100002A9F")


def test_a_hook_hears_of_what_came_back(tmp_path: Path) -> None:
    seen: list[SentBack] = []
    with World(tmp_path) as world:
        world.state.hooks.on_send_back.append(seen.append)
        ask(world, "T")
        back = SendBackHeader(offset=0, group="g", delay_level=0)
        dead = SendBackHeader(offset=0, group="g", delay_level=-1)

        world.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
        world.ask(RequestCode.CONSUMER_SEND_MSG_BACK, dead)

        first, second = seen
        assert (first.group, first.topic, first.target_topic) == ("g", "T", "%RETRY%g")
        assert (first.reconsume_times, first.delay_level) == (1, 3)
        assert (second.target_topic, second.delay_level) == ("%DLQ%g", 0)


def test_nobody_hears_of_what_was_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise DiskFailed("file", "write", "full", errno.ENOSPC)

    seen: list[SentBack] = []
    with World(tmp_path) as world:
        world.state.hooks.on_send_back.append(seen.append)
        ask(world, "T")
        back = SendBackHeader(offset=0, group="g", delay_level=0)
        with monkeypatch.context() as patch:
            patch.setattr(world.state.log._log, "write", refuse)

            answer = world.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)

        assert answer is not None
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert not seen
