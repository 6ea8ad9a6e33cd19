"""Sends look the same from outside as those to a real 5.3.3 broker, which was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.requests.outcome import Answer
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from flintmq.protocol.frame import FrameReader
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.headers.send import SendAnswer, SendRefusal
from flintmq.protocol.records.properties import format_properties
from flintmq.protocol.wire import decode_command
from support.broker.sends import ask, stored_properties
from support.broker.world import START_MS, World, header_of

GOLDEN = Path(__file__).parents[2] / "golden"
OURS = {"MSG_REGION", "TRACE_ON", "CLUSTER"}


def golden_exchanges() -> list[tuple[str, Command, Command]]:
    """Sends to a 5.3.3 broker and its answers."""
    found: dict[int, dict[str, Any]] = {}
    for line in (GOLDEN / "frames.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["code"] in (10, 310, 320) and row["broker"] == "5.3.3":
            found.setdefault(row["pair"], {})[row["role"]] = row
    exchanges = []
    for pair, rows in sorted(found.items()):
        if rows.keys() == {"request", "answer"}:
            asked, answered = (golden_command(rows[role]) for role in ("request", "answer"))
            if asked.field_texts():  # one frame is of an empty header
                exchanges.append((f"{rows['request']['client']}-{pair}", asked, answered))
    return exchanges


def golden_command(row: dict[str, Any]) -> Command:
    (frame,) = FrameReader().feed(bytes.fromhex(row["frame_hex"]))
    return decode_command(frame)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [exchange[1:] for exchange in golden_exchanges()],
    ids=[exchange[0] for exchange in golden_exchanges()],
)
def test_the_answer_has_the_fields_of_a_real_broker(
    asked: Command, answered: Command, tmp_path: Path
) -> None:
    with World(tmp_path) as world:
        code = RequestCode(asked.code)
        header = asked.header(REQUEST_HEADERS[code])
        topic = getattr(header, "topic", "")
        if answered.code:
            config = TopicConfig(
                topic_name=topic, read_queue_nums=1, write_queue_nums=1, attributes={}
            )
            world.state.topics.create_or_replace(config, START_MS)

        answer = world.ask(code, header, asked.body, version=asked.version)

        assert answer is not None
        wanted = answered.field_texts()
        given_fields = golden_fields(answer)
        assert answer.code == answered.code
        assert given_fields.keys() == wanted.keys()
        for same in ("queueId", "TRACE_ON", "MSG_REGION"):
            assert given_fields.get(same) == wanted.get(same)
        assert len(given_fields.get("msgId", "")) == len(wanted.get("msgId", ""))
        if "UNIQ_KEY" in asked.field_texts().get("i", ""):
            assert given_fields.get("transactionId") == wanted.get("transactionId")
        if answered.remark and topic:
            assert answer.remark is not None
            assert answer.remark.rpartition(":")[0] == answered.remark.rpartition(":")[0]


def golden_fields(answer: Answer) -> dict[str, str]:
    header = header_of(answer, SendAnswer if answer.code == 0 else SendRefusal)
    fields = json.loads(json.dumps({f: getattr(header, f) for f in header.__struct_fields__}))
    wire = dict(zip(header.__struct_fields__, header.__struct_encode_fields__, strict=True))
    return {wire[name]: str(value) for name, value in fields.items() if value is not None}


PLAIN_KINDS = {"plain", "keys", "several-keys", "tags", "unicode-properties", "lz4-body"}


def golden_properties() -> list[dict[str, str]]:
    """Properties of plain messages as a 5.3.3 broker stored them."""
    lines = (GOLDEN / "records.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        row["expected"]["properties"]
        for row in rows
        if row["broker"] == "5.3.3"
        and row["kind"] in PLAIN_KINDS
        and "DELAY" not in row["expected"]["properties"]
    ]


def test_the_broker_puts_the_same_to_properties_as_a_real_one(tmp_path: Path) -> None:
    rows = golden_properties()
    with World(tmp_path) as world:
        for wanted in rows:
            sent = {
                k: v for k, v in wanted.items() if k not in ("MSG_REGION", "TRACE_ON", "CLUSTER")
            }

            ask(world, "T", properties=format_properties(sent))

            assert stored_properties(world, "T") == wanted
    assert len(rows) > 5
