"""A peer cannot make a broker write to itself, nor to a queue nobody made; no restart changes that.

The requests go over sockets, as any peer may send them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.servers import Servers
from flintmq.model.queue import LogOffset
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.fields import read_header
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.protocol.headers.send import SendAnswer
from flintmq.protocol.headers.transaction import EndTransaction, ResumeCheck
from support.embedded.asking import ask, pull, send

HUGE = 999_999_999


def log_end(servers: Servers) -> LogOffset:
    return servers.brokers["broker-a"].state.log.end_offset


def queue_ids(servers: Servers) -> set[int]:
    return {span.queue_id for span in servers.brokers["broker-a"].state.log.queues()}


def attack(broker: EmbeddedBroker, topic: str, queue_id: int) -> tuple[int, int]:
    """Send, make it a half message, commit that; the codes of the last two."""
    forged = {"PGROUP": "p", "REAL_TOPIC": topic, "REAL_QID": str(queue_id), "TIMER_OUT_MS": "1000"}
    text = "".join(f"{name}\x01{value}\x02" for name, value in forged.items())
    sent = read_header(SendAnswer, send(broker.broker, "orders", b"again", text).fields)
    next_record = broker.call(log_end)
    asked = ResumeCheck(msg_id=sent.msg_id)
    resumed = ask(broker.broker, RequestCode.RESUME_CHECK_HALF_MESSAGE, asked)
    commit = EndTransaction(
        producer_group="p",
        tran_state_table_offset=0,
        commit_log_offset=next_record,
        commit_or_rollback=8,
        msg_id="id",
    )
    return resumed.code, ask(broker.broker, RequestCode.END_TRANSACTION, commit).code


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "Ghost"])
def test_a_forged_half_message_is_neither_resumed_nor_committed(topic: str, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        codes = attack(broker, topic, HUGE if topic == "Ghost" else 0)
        reached = broker.call(log_end)
        broker.advance(60)

        assert codes == (1, 1)
        assert broker.call(log_end) == reached
    with EmbeddedBroker(tmp_path) as broker:
        broker.advance(60)
        stats = ask(broker.broker, RequestCode.GET_TOPIC_STATS_INFO, OfTopic(topic="Ghost"))

        assert broker.call(log_end) == reached
        assert broker.call(queue_ids) == {0}
        assert stats.code == ResponseCode.TOPIC_NOT_EXIST
        assert b"again" in pull(broker.broker, "orders").body
