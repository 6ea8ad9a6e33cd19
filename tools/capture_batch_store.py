"""Make a real 5.3.3 broker fill a store with batch consume queues, and keep directory and answers.

    PYTHONPATH=tests .venv/bin/python tools/capture_batch_store.py

Requests are made by hand.  ``golden-batch-5.3.3.tgz`` is the directory after a clean stop; its
manifest has what was sent, and questions with the broker's answers: pulls from many offsets with
and without filters, offsets by time, extents, units of the queue, messages by key and by place.
"""

from __future__ import annotations

import json
import struct
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.interop.ask import ask
from support.interop.real import RealRocketMQ

NAME = "golden-batch-5.3.3"
STORES = Path(__file__).parents[1] / "tests" / "golden" / "stores"
SETTINGS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 1_000,
    "mapperFileSizeBatchConsumeQueue": 460,
    "maxHashSlotNum": 100,
    "maxIndexNum": 500,
    "maxMessageSize": 16_384,
    "autoCreateTopicEnable": False,
}
KEPT = ("batchconsumequeue", "consumequeue", "commitlog", "config", "index", "checkpoint", "lock")
TOPIC, PLAIN, EMPTY = "batched", "plain", "batched-empty"
PULL, QUERY, CREATE, BY_TIME, MAX, MIN, EARLIEST, VIEW = 11, 12, 17, 29, 30, 31, 32, 33
STATS, UNITS, SEND, SEND_BATCH = 202, 321, 310, 320

PULL_FIELDS: dict[str, object] = {
    "consumerGroup": "probe",
    "sysFlag": 4,
    "commitOffset": 0,
    "suspendTimeoutMillis": 0,
    "subVersion": 0,
}
"""What all pulls have; it is left out of the manifest."""

Asked = dict[str, Any]


def encoded(messages: list[tuple[int, bytes, str]]) -> bytes:
    """Messages as the body of a batch."""
    parts = []
    for flag, body, properties in messages:
        text = properties.encode()
        size = 22 + len(body) + len(text)
        head = struct.pack(">iiiii", size, 0, 0, flag, len(body))
        parts.append(head + body + struct.pack(">h", len(text)) + text)
    return b"".join(parts)


def unique_id(number: int) -> str:
    return f"7F00000104D218B4AAC205265C{number:06X}"


def sends() -> Iterator[Asked]:
    """Batches, batches of the old kind, and single messages, in turn."""
    for number in range(36):
        queue_id = number % 2
        topic = PLAIN if number % 12 == 11 else TOPIC
        is_single = number % 5 == 3
        is_old = number % 9 == 7
        tag = f"TAGS\x01{'ab'[number // 3 % 2]}\x02" if number % 3 else ""
        own_id = "" if is_old else f"UNIQ_KEY\x01{unique_id(number)}\x02"
        key = f"KEYS\x01k{number} shared\x02" if number % 4 == 0 else ""
        color = f"color\x01{'red' if number % 2 else 'blue'}\x02"
        messages = [
            (
                part,
                b"%d/%d " % (number, part) + b"x" * (number * 7),
                f"TAGS\x01t{part}\x02n\x01{part}\x02",
            )
            for part in range(number % 7 + 1)
        ]
        if is_single:
            body, own_id = messages[0][1], f"UNIQ_KEY\x01{unique_id(number)}\x02"
        else:
            body = encoded(messages)
        yield {
            "topic": topic,
            "queue_id": queue_id,
            "is_batch": not is_single,
            "properties": own_id + tag + key + color,
            "body": body.hex(),
        }


def send(broker: str, one: Asked) -> Asked:
    letters = {
        "a": "probe", "b": one["topic"], "c": "TBW102", "d": "2", "e": str(one["queue_id"]),
        "f": "0", "g": "1700000000000", "h": "0", "i": one["properties"], "j": "0", "k": "false",
    }  # fmt: skip
    if one["is_batch"]:
        letters["m"] = "true"
    code = SEND_BATCH if one["is_batch"] else SEND
    header, _ = ask(broker, code, letters, bytes.fromhex(one["body"]))
    return {
        "code": header["code"],
        "fields": header.get("extFields"),
        "remark": header.get("remark"),
    }


def asked(broker: str, code: int, **fields: object) -> Asked:
    """A question with its answer; of records only their places in the log are kept."""
    texts = {name: str(value) for name, value in fields.items()}
    header, body = ask(broker, code, texts)
    answer: Asked = {
        "request": code,
        "fields": {name: text for name, text in texts.items() if name not in PULL_FIELDS},
        "code": header["code"],
        "remark": header.get("remark"),
        "answer": header.get("extFields"),
    }
    if code in (PULL, QUERY, VIEW):
        return {**answer, "records": list(places(body))}
    return {**answer, "body": body.decode()}


def places(body: bytes) -> Iterator[int]:
    while body:
        yield int.from_bytes(body[28:36], "big")
        body = body[int.from_bytes(body[:4], "big") :]


def pull(broker: str, topic: str, queue_id: int, offset: int, count: int, **more: object) -> Asked:
    fields = {
        **PULL_FIELDS,
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": offset,
        "maxMsgNums": count,
        "subscription": "*",
        "expressionType": "TAG",
        **more,
    }
    return asked(broker, PULL, **fields)


def questions(broker: str, sent: list[Asked]) -> Iterator[Asked]:
    for topic in (TOPIC, EMPTY):
        for queue_id in range(2):
            queue = {"topic": topic, "queueId": queue_id}
            yield asked(broker, MAX, **queue)
            yield asked(broker, MIN, **queue)
            yield asked(broker, EARLIEST, **queue)
            yield asked(broker, STATS, topic=topic)
            last = int(asked(broker, MAX, **queue)["answer"]["offset"])
            for offset in range(0, last + 2, 1 + queue_id):
                yield pull(broker, topic, queue_id, offset, 32)
            for offset in range(0, last, 7):
                yield pull(broker, topic, queue_id, offset, 1)
                yield pull(broker, topic, queue_id, offset, 5)
                yield pull(broker, topic, queue_id, offset, 32, subscription="a")
                yield pull(broker, topic, queue_id, offset, 32, subscription="b || t1")
                yield pull(
                    broker, topic, queue_id, offset, 32,
                    subscription="color = 'red'", expressionType="SQL92",
                )  # fmt: skip
            stored = [one["stored_ms"] for one in sent if one["queue_id"] == queue_id]
            times = {ms + more for ms in stored for more in (0, 1)} | {0, stored[-1] + 10_000}
            if topic == EMPTY:
                times = {0}
            for ms in sorted(times):
                for bound in ("LOWER", "UPPER"):
                    yield asked(broker, BY_TIME, **queue, timestamp=ms, boundaryType=bound)
            for index in (0, 3, 9, last):
                yield asked(broker, UNITS, **queue, index=index, count=4, consumerGroup="")
    for number in (0, 4, 8):
        for key in (f"k{number}", unique_id(number)):
            yield asked(
                broker, QUERY, topic=TOPIC, key=key, maxNum=32, beginTimestamp=0,
                endTimestamp=2**62,
            )  # fmt: skip
    for one in sent[:6]:
        place = int(one["answer"]["fields"]["msgId"].split(",")[0][-16:], 16)
        yield asked(broker, VIEW, offset=place)


def create(broker: str, topic: str, attributes: str) -> None:
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "topicFilterType": "SINGLE_TAG",
        "readQueueNums": "2",
        "writeQueueNums": "2",
        "perm": "6",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": attributes,
    }
    header, _ = ask(broker, CREATE, fields)
    if header["code"] != 0:
        raise RuntimeError(f"the broker refused: {header}")


def stored_ms(broker: str, answer: Asked) -> int:
    place = int(answer["fields"]["msgId"].split(",")[0][-16:], 16)
    _, record = ask(broker, VIEW, {"offset": str(place)})
    return int.from_bytes(record[56:64], "big")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        rocketmq = RealRocketMQ("5.3.3", Path(directory), **SETTINGS)
        with rocketmq:
            broker = rocketmq.broker
            create(broker, TOPIC, "+queue.type=BatchCQ")
            create(broker, EMPTY, "+queue.type=BatchCQ")
            create(broker, PLAIN, "")
            sent = list(sends())
            for one in sent:
                one["answer"] = send(broker, one)
                if one["answer"]["code"] != 0:
                    raise RuntimeError(f"the broker refused: {one['answer']}")
                one["stored_ms"] = stored_ms(broker, one["answer"])
                time.sleep(0.003)  # so that store times differ
            time.sleep(1.0)  # dispatch is behind
            answers = list(questions(broker, sent))
        content = {
            "broker_version": "V5_3_3",
            "broker_name": "broker-a",
            "store_host": broker,
            "settings": {**SETTINGS},
            "sent": sent,
            "questions": answers,
        }
        with tarfile.open(STORES / f"{NAME}.tgz", "w:gz") as archive:
            for name in KEPT:
                archive.add(Path(directory) / "store" / name, f"store/{name}")
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in content.items())
        (STORES / f"{NAME}.manifest.json").write_text("{" + lines + "}\n")


if __name__ == "__main__":
    main()
