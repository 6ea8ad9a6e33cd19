"""Make real brokers store the rarer kinds of records, and add them to ``records.jsonl``.

    PYTHONPATH=tests .venv/bin/python tools/capture_records.py [light]

IPv6 hosts, LZ4 and ZSTD bodies, a topic too long for the usual record, properties with a
checksum, and records that are in light queues; with ``light`` only those.  Messages are sent by
hand-made requests, or by the Java client where it has to pack the body; what a record says is told
by the Java client of the broker's generation.  Rows of these kinds are replaced, all others stay.

An inner batch is one record of several messages; it has a file of its own, ``inner_batches.jsonl``,
with the messages as they were sent.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capture_frames import drive
from support.interop.ask import ask
from support.interop.real import RealRocketMQ
from support.interop.wire_judge import WireJudge

HERE = Path(__file__).parents[1] / "tests" / "golden"
RECORDS = HERE / "records.jsonl"
INNER_BATCHES = HERE / "inner_batches.jsonl"

SEND, PULL, SEND_BACK, CREATE_TOPIC, SEND_BATCH = 310, 11, 36, 17, 320
FOUND = 0
WAIT_S = 20.0
READERS = {"4.9.7": "4.9.8", "5.3.3": "5.3.3"}  # the client of each broker's generation
LONG_GROUP = "g" * 130
UNIQUE_ID = "7F00000104D218B4AAC205265C000001"
CRC_NAME = b"__CRC32#"
LIGHT = ("%LMQ%a", "%LMQ%a,%LMQ%b", "%LMQ%b,%LMQ%a", "%LMQ%c,%LMQ%mqtt_topic@device-1")

Row = dict[str, object]


def send(broker: str, topic: str, body: bytes, properties: str, **fields: str) -> dict[str, Any]:
    """Send one message by hand; the fields have one-letter names on the wire."""
    letters = {
        "a": "probe",
        "b": topic,
        "c": "TBW102",
        "d": "1",
        "e": "0",
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        **fields,
    }
    header, _ = ask(broker, SEND_BATCH if fields.get("m") == "true" else SEND, letters, body)
    if header["code"] != 0:
        raise RuntimeError(f"the broker refused: {header}")
    found: dict[str, Any] = header["extFields"]
    return found


def pull(broker: str, topic: str, offset: int = 0) -> Iterator[bytes]:
    """The records of queue 0 from ``offset`` on; waits until there is one."""
    fields = {
        "consumerGroup": "probe",
        "topic": topic,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    deadline = time.monotonic() + WAIT_S
    while True:
        header, body = ask(broker, PULL, fields)
        if header["code"] == FOUND:
            break
        if time.monotonic() > deadline:
            raise RuntimeError(f"nothing in {topic}: {header}")
        time.sleep(0.1)
    while body:
        size_bytes = int.from_bytes(body[:4], "big")
        yield body[:size_bytes]
        body = body[size_bytes:]


def row(judge: WireJudge, kind: str, client: str, broker: str, record: bytes) -> Row:
    [seen] = judge.records(record)
    properties = seen["properties"]
    body = bytes.fromhex(seen["body"])
    expected = {
        "topic": seen["topic"],
        "queue_id": seen["queueId"],
        "queue_offset": seen["queueOffset"],
        "log_offset": seen["commitLogOffset"],
        "size_bytes": seen["storeSize"],
        "flag": seen["flag"],
        "sys_flag": int.from_bytes(record[36:40], "big"),
        "born_ms": seen["bornTimestamp"],
        "store_ms": seen["storeTimestamp"],
        "reconsume_times": seen["reconsumeTimes"],
        "prepared_offset": seen["preparedTransactionOffset"],
        "body_sha1": hashlib.sha1(body, usedforsecurity=False).hexdigest(),
        "body_length": len(body),
        "offset_message_id": seen["offsetMsgId"],
        "message_id": seen["msgId"],
        "tags": properties.get("TAGS"),
        "properties": properties,
        "keys": properties.get("KEYS", "").split(),
    }
    row: Row = {"kind": kind, "client": client, "broker": broker, "origin": "pull answer"}
    return {**row, "expected": expected, "hex": record.hex()}


def hosts_v6(version: str, judge: WireJudge) -> Iterator[Row]:
    """Born and store host as IPv6, alone and together."""
    with tempfile.TemporaryDirectory() as directory:
        rocketmq = RealRocketMQ(version, Path(directory), bindAddress="::")
        port = rocketmq.broker_port
        with rocketmq:
            send(f"::1:{port}", "born", b"from ::1", "TAGS\x01a")
            record = next(pull(rocketmq.broker, "born"))
            yield row(judge, "born-host-v6", "probe", version, record)
            rocketmq.stop_broker()
            rocketmq.settings["brokerIP1"] = "::1"
            rocketmq.start_broker()
            send(f"127.0.0.1:{port}", "stored", b"at ::1", "TAGS\x01b")
            send(f"::1:{port}", "both", b"from ::1, at ::1", "TAGS\x01c")
            record = next(pull(rocketmq.broker, "stored"))
            yield row(judge, "store-host-v6", "probe", version, record)
            record = next(pull(rocketmq.broker, "both"))
            yield row(judge, "both-hosts-v6", "probe", version, record)


def packed_bodies(rocketmq: RealRocketMQ, judge: WireJudge) -> Iterator[Row]:
    """LZ4 and ZSTD, by the newer client, which can be told to use them."""
    for name, bits in (("LZ4", 0x101), ("ZSTD", 0x201)):
        props = {"rocketmq.message.compressType": name}
        drive(rocketmq.namesrv, rocketmq.broker, "5.3.3", "JSON", "send", props)
        for record in pull(rocketmq.broker, "5st"):
            if int.from_bytes(record[36:40], "big") & 0x701 == bits:
                yield row(judge, f"{name.lower()}-body", "java-5.3.3", rocketmq.version, record)
                break


def long_topic(rocketmq: RealRocketMQ, judge: WireJudge) -> Iterator[Row]:
    """A message sent back by a group with a long name: its retry topic needs the wider record."""
    sent = send(rocketmq.broker, "plain", b"try again", "TAGS\x01a")
    fields = {
        "group": LONG_GROUP,
        "offset": str(int(sent["msgId"][-16:], 16)),
        "delayLevel": "1",
        "originMsgId": sent["msgId"],
        "originTopic": "plain",
        "unitMode": "false",
        "maxReconsumeTimes": "16",
    }
    header, _ = ask(rocketmq.broker, SEND_BACK, fields)
    if header["code"] != 0:
        raise RuntimeError(f"the broker refused: {header}")
    record = next(pull(rocketmq.broker, f"%RETRY%{LONG_GROUP}"))
    yield row(judge, "long-topic-v2", "probe", rocketmq.version, record)


def inner_batch(rocketmq: RealRocketMQ, judge: WireJudge) -> Row:
    """A batch that stays one record, which a topic of the batch kind makes of it."""
    fields = {
        "topic": "batched",
        "defaultTopic": "TBW102",
        "topicFilterType": "SINGLE_TAG",
        "readQueueNums": "1",
        "writeQueueNums": "1",
        "perm": "6",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": "+queue.type=BatchCQ",
    }
    header, _ = ask(rocketmq.broker, CREATE_TOPIC, fields)
    if header["code"] != 0:
        raise RuntimeError(f"the broker refused: {header}")
    messages = [(1, b"one", {"TAGS": "a"}), (2, b"two", {"KEYS": "k"})]
    unique_id = f"UNIQ_KEY\x01{UNIQUE_ID}"
    send(rocketmq.broker, "batched", judge.batch(messages), unique_id, m="true")
    sent = [
        {"queue_offset": offset, "flag": flag, "body": body.decode(), "properties": properties}
        for offset, (flag, body, properties) in enumerate(messages)
    ]
    record = next(pull(rocketmq.broker, "batched"))
    return {"broker": rocketmq.version, "messages": sent, "hex": record.hex()}


def property_checksum(rocketmq: RealRocketMQ, judge: WireJudge) -> Iterator[Row]:
    rocketmq.stop_broker()
    rocketmq.settings["enabledAppendPropCRC"] = True
    rocketmq.start_broker()
    send(rocketmq.broker, "checked", b"body", "TAGS\x01a")
    record = next(pull(rocketmq.broker, "checked"))
    assert CRC_NAME in record
    yield row(judge, "property-crc", "probe", rocketmq.version, record)


def light_queues(version: str, judge: WireJudge) -> Iterator[Row]:
    """Records that are in light queues; names, tags and keys in the order of a Java map."""
    with (
        tempfile.TemporaryDirectory() as directory,
        RealRocketMQ(
            version, Path(directory), enableLmq=True, enableMultiDispatch=True
        ) as rocketmq,
    ):
        for number, light in enumerate(LIGHT):
            properties = f"INNER_MULTI_DISPATCH\x01{light}\x02TAGS\x01a\x02KEYS\x01k{number}\x02"
            properties += f"UNIQ_KEY\x01{UNIQUE_ID[:-1]}{number}\x02from\x01mqtt"
            send(rocketmq.broker, "chat", b"%d" % number, properties)
        for number in range(len(LIGHT)):
            record = next(pull(rocketmq.broker, "chat", number))
            yield row(judge, "light-queues", "probe", version, record)


def rows(version: str, only_light: bool) -> Iterator[Row]:
    if only_light:
        with WireJudge(READERS[version]) as judge:
            yield from light_queues(version, judge)
        return
    with WireJudge(READERS[version]) as judge, tempfile.TemporaryDirectory() as directory:
        print(f"records of {version}", flush=True)
        yield from hosts_v6(version, judge)
        yield from light_queues(version, judge)
        quick = " ".join(["1s"] * 18)
        with RealRocketMQ(version, Path(directory), messageDelayLevel=quick) as rocketmq:
            yield from packed_bodies(rocketmq, judge)
            if version == "5.3.3":
                yield from long_topic(rocketmq, judge)
                batch = inner_batch(rocketmq, judge)
                INNER_BATCHES.write_text(json.dumps(batch) + "\n")
                yield from property_checksum(rocketmq, judge)


def main() -> None:
    only_light = sys.argv[1:] == ["light"]
    made = [one for version in READERS for one in rows(version, only_light)]
    kinds = {one["kind"] for one in made}
    kept = [
        line for line in RECORDS.read_text().splitlines() if json.loads(line)["kind"] not in kinds
    ]
    RECORDS.write_text("".join(line + "\n" for line in [*kept, *map(json.dumps, made)]))
    print(f"{len(made)} records of {len(kinds)} kinds")


if __name__ == "__main__":
    main()
