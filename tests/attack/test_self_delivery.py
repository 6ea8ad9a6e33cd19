"""A message that would deliver itself for ever, and a queue id that would become a topic.

Findings 1 (REAL_TOPIC of a delay or timer topic through 323 and 37) and 6 (queue id 999,999,999).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.attack.arena import Arena
from support.attack.peers import asked
from support.attack.said import PULL, SEND, TOPIC_STATS, pull_fields, send_fields
from support.attack.victim import MB, serving, until

HALVES = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_BIT, COMMIT = 4, 8
END, RESUME, NO_TOPIC = 37, 323, 17
BODY = bytes(1 * MB)


class Half(NamedTuple):
    queue_offset: int
    log_offset: int


def halves(broker: str) -> Iterator[Half]:
    """The half messages of everybody, which everybody may read."""
    records = asked(broker, PULL, pull_fields(HALVES)).body
    while records:
        size = int.from_bytes(records[:4], "big")
        yield Half(*(int.from_bytes(records[at : at + 8], "big") for at in (20, 28)))
        records = records[size:]


def commit(broker: str, half: Half) -> None:
    fields = {
        "producerGroup": "P",
        "tranStateTableOffset": half.queue_offset,
        "commitLogOffset": half.log_offset,
        "commitOrRollback": COMMIT,
        "msgId": "id",
    }
    asked(broker, END, fields)


def try_all(broker: str, real_topic: str, real_queue: int) -> None:
    """Every way by which a stored record could be put under a name of the sender's choice."""
    home = {"REAL_TOPIC": real_topic, "REAL_QID": str(real_queue), "PGROUP": "P"}
    ways: tuple[tuple[dict[str, str], int], ...] = (
        ({**home, "TIMER_OUT_MS": "1000"}, 0),
        ({**home, "TRAN_MSG": "true"}, HALF_BIT),
        ({**home, "DELAY": "1"}, 0),
        ({**home, "TIMER_DELAY_SEC": "1"}, 0),
    )
    for properties, sys_flag in ways:
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        sent = asked(
            broker, SEND, send_fields("Innocent", properties=text, sys_flag=sys_flag), BODY
        )
        if sent.code == 0:
            asked(broker, RESUME, {"msgId": sent.fields["msgId"]})
    for half in halves(broker):
        commit(broker, half)


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"])
def test_a_message_delivers_itself_at_most_once(arena: Arena, topic: str) -> None:
    with arena.attack(f"self-delivery: {topic}", cpu_s=8, grow_mb=150):
        before = arena.victim.stored_bytes()
        try_all(arena.broker, topic, 0)
        assert arena.victim.stored_bytes() >= before + 2 * MB, "nothing was stored at all"
        grew = until(lambda: arena.victim.stored_bytes() > before + 40 * MB, 5)
        assert not grew, "the store grows by itself"


def test_a_queue_id_beyond_reason_makes_no_topic_and_no_stop_hangs(tmp_path: Path) -> None:
    with serving(tmp_path) as victim:
        try_all(victim.broker, "Ghost", 999_999_999)
        assert victim.stop() == 0
    with serving(tmp_path) as victim:
        start_s = victim.cpu_s()
        for topic in ("Ghost", "Innocent"):
            heard = asked(victim.broker, TOPIC_STATS, {"topic": topic})
            assert heard.code in (0, NO_TOPIC), heard
        assert victim.cpu_s() - start_s < 2
        assert victim.stop() == 0
        victim.check_log()
        victim.check_store()
