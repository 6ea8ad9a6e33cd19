"""The harness itself: real servers start, answer, survive a crash, stop, and can be recorded."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from support.golden.exchange import pair_up, peek
from support.interop.ask import ask
from support.interop.proxy import RecordingProxy
from support.interop.real import RealRocketMQ, ServerTls, running
from support.net.certificates import Authority

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(600),  # the first run fetches the jars
]

CLUSTER, TOPICS, SEND, PULL = 106, 21, 310, 11


def send(broker: str, body: bytes) -> int:
    letters = {
        "a": "probe",
        "b": "orders",
        "c": "TBW102",
        "d": "1",
        "e": "0",
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": "",
    }
    return int(ask(broker, SEND, letters, body)[0]["code"])


def pull(broker: str) -> bytes:
    fields = {
        "consumerGroup": "probe",
        "topic": "orders",
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
    }
    return ask(broker, PULL, fields)[1]


def ask_for_topics(frame: bytes) -> bytes:
    return frame.replace(b'"code": 106', b'"code": 206')


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3", "5.5.0"])
def test_real_servers_are_recorded_and_survive_a_crash_and_stop_in_order(
    version: str, tmp_path: Path
) -> None:
    with RealRocketMQ(version, tmp_path, flushDiskType="SYNC_FLUSH") as rocketmq:
        with RecordingProxy(rocketmq.namesrv, rewrite=ask_for_topics) as proxy:
            _, body = ask(proxy.address, CLUSTER)
            [exchange] = pair_up(proxy.take(), "probe", version, "client", "namesrv")
        assert b"topicList" in body
        assert peek(exchange.request).code == CLUSTER
        assert exchange.answer is not None
        assert peek(exchange.answer).body == body

        assert send(rocketmq.broker, b"before a crash") == 0
        rocketmq.kill_broker()
        assert (rocketmq.store / "abort").exists()
        rocketmq.start_broker()

        assert b"before a crash" in pull(rocketmq.broker)
        pids = [
            process.running.pid
            for process in (rocketmq._namesrv, rocketmq._broker)
            if process.running is not None
        ]

    assert not running
    assert not (rocketmq.store / "abort").exists()
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_a_broker_can_be_made_to_speak_tls_and_binary_headers(version: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    pem = Path(authority.sign("broker"))
    tls = ServerTls(pem, pem)
    trusting = ssl.create_default_context(cafile=authority.ca_file)
    home = tmp_path / "rocketmq"
    home.mkdir()

    with RealRocketMQ(version, home, tls=tls, serialize_type="ROCKETMQ") as rocketmq:
        header, _ = ask(rocketmq.broker, TOPICS, tls=trusting)
        with pytest.raises(ConnectionError):
            ask(rocketmq.broker, TOPICS)

    assert header["flag"] == 1
    # 4.9 answers in the form of the request, 5.x in its own.
    assert isinstance(header["language"], int) is (version == "5.3.3")
