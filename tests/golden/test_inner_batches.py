"""A record that a real broker made of a whole batch is split into the messages that were sent."""

from __future__ import annotations

import json
from pathlib import Path

from flintmq.protocol.records.received import decode_messages
from flintmq.protocol.records.record import decode_record, encode_record

LINES = (Path(__file__).parent / "inner_batches.jsonl").read_text().splitlines()


def test_the_messages_of_an_inner_batch_are_the_ones_that_were_sent() -> None:
    for line in map(json.loads, LINES):
        received = decode_messages(bytes.fromhex(line["hex"]), broker="broker-a")

        assert received.fault is None
        assert [
            {
                "queue_offset": message.queue_offset,
                "flag": message.flag,
                "body": message.body.decode(),
                "properties": message.properties,
            }
            for message in received.messages
        ] == line["messages"]


def test_the_record_of_an_inner_batch_is_written_again_to_the_byte() -> None:
    for line in map(json.loads, LINES):
        octets = bytes.fromhex(line["hex"])

        assert encode_record(decode_record(octets)) == octets
