"""Bodies of real servers and clients are read, and written again as they were."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from flintmq.protocol.bodies.client_call import ResetOffsets
from flintmq.protocol.bodies.register import BrokerRegistration, body_crc32
from flintmq.protocol.bodies.route import TopicRoute
from support.body_strategies import body_classes
from support.protocol.registrations import compressed_form, read_compressed

GOLDEN = Path(__file__).parents[2] / "golden" / "bodies.jsonl"
LINES = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
CLASSES = {cls.__name__: cls for cls in body_classes()}


def content(line: dict[str, Any]) -> bytes:
    return bytes.fromhex(line["hex"]) if "hex" in line else str(line["text"]).encode()


def decode(line: dict[str, Any], octets: bytes) -> Any:
    cls = CLASSES[line["kind"]]
    if line["form"] == "compressed":
        return read_compressed(octets, line["version"])
    return cls.from_file(octets) if line["form"] == "file" else cls.from_body(octets)


def encode(line: dict[str, Any], value: Any) -> bytes:
    match line["form"], value:
        case "compressed", BrokerRegistration():
            return compressed_form(value, line["version"])
        case "list", ResetOffsets():
            return value.to_list_body()
        case "bare", TopicRoute():
            return value.to_body(bare_keys=True)
        case "file", _:
            return bytes(value.to_file())
        case _:
            return bytes(value.to_body())


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line['kind']}, {line['origin']}")
def test_a_real_body_survives_decoding_and_encoding(line: dict[str, Any]) -> None:
    octets = content(line)

    value = decode(line, octets)
    written = encode(line, value)

    assert decode(line, written) == value
    if line["form"] == "compressed":  # another build of zlib may pack the same bytes differently
        written, octets = zlib.decompress(written), zlib.decompress(octets)
    if line["exact"]:
        assert written == octets


@pytest.mark.parametrize("line", [line for line in LINES if "crc" in line], ids=str)
def test_the_checksum_of_a_real_registration_is_ours(line: dict[str, Any]) -> None:
    assert body_crc32(content(line)) == line["crc"]


def test_what_java_wrote_is_reproduced_to_the_byte() -> None:
    """Only other languages and hand-made requests may differ, and one escape in upper case."""
    others = ("go-", "node-", "python-", "probe")

    inexact = [
        line for line in LINES if not line["exact"] and not line["origin"].startswith(others)
    ]

    assert [line["kind"] for line in inexact] == ["TopicRoute"]
    assert "\\u00E9" in inexact[0]["text"]


PARTS = {
    "Assignment",
    "BatchAck",
    "BloomBits",
    "BrokerEntry",
    "BrokerMembers",
    "ClientConnection",
    "ConnectedProducer",
    "ConsumeRates",
    "ConsumerGroup",
    "GroupFilter",
    "HaClientProgress",
    "HaConnection",
    "OrderedPop",
    "PopQueue",
    "PopQueueState",
    "ProducerGroup",
    "QueueEntry",
    "QueueExtent",
    "QueueProgress",
    "QueueState",
    "QueueTimeSpan",
    "QueueUnit",
    "RateSample",
    "Subscription",
    "TimingCount",
    "TopicFilters",
}
"""Classes that only occur inside others."""

OURS = {"AccountsFile", "OrderRecord", "SavedRole", "TimerPositions"}
"""Classes of files and records that only our broker has."""

JUDGED = {"AclBody", "EntryBody", "PlainAccountBody", "PlainAccountsBody", "PolicyBody", "UserBody"}
"""Accounts: no capture is kept of them; tests/interop/test_access_control.py has mqadmin of 4.9 and
5.3 read and write them."""

BETWEEN_REPLICAS = {"HaStatus", "TimerMetrics"}
"""`TimerMetrics` is compared with a capture in tests/broker/admin/test_slave_requests.py, mqadmin
reads `HaStatus` in tests/interop/test_replica_tables.py."""

IN_STORES = {"AckRecord", "CheckpointRecord", "LightOffsets", "OrderedPops"}
"""No capture is kept of them here.  Ours and a real broker read each other's checkpoints and
acknowledgements in tests/interop/test_pop_exchange.py; the texts of the two tables are in
tests/broker/consume/test_pop_ordered.py and tests/broker/send/test_light_queues.py."""


def test_every_body_has_a_real_example() -> None:
    others = PARTS | OURS | JUDGED | BETWEEN_REPLICAS | IN_STORES
    assert CLASSES.keys() - others == {line["kind"] for line in LINES}
