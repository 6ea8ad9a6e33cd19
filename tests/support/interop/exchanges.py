"""What a store exchange pulls and how it is split."""

from __future__ import annotations

from flintmq.model.host import Host
from flintmq.protocol.records.record import Record, decode_record
from support.interop.real import ask

HOST = Host.parse("127.0.0.1:10911")


SEND_MESSAGE, PULL_MESSAGE, QUERY_MESSAGE = 10, 11, 12


FROM_SUBSCRIPTION = "4"


OK = 0


Key = tuple[str, int, int]


def pulled(broker: str, topic: str, queue_id: int) -> dict[Key, Record]:
    """Every message of a queue, as the real broker gives it."""
    found: dict[Key, Record] = {}
    offset = 0
    while True:
        fields = {
            "consumerGroup": "exchange",
            "topic": topic,
            "queueId": str(queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": FROM_SUBSCRIPTION,
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
        }
        header, body = ask(broker, PULL_MESSAGE, fields)
        if header["code"] != OK:
            return found
        for record in split(body):
            found[topic, queue_id, record.queue_offset] = record
        offset = int(header["extFields"]["nextBeginOffset"])


def split(octets: bytes) -> list[Record]:
    records = []
    at = 0
    while at < len(octets):
        records.append(decode_record(octets, at))
        at += int.from_bytes(octets[at : at + 4])
    return records
