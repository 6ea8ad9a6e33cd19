"""What strangers may set, and what they may say of brokers.

Findings 12 (25 and 318 of 12 MB, 103 packed), 15 (103 in a real broker's place) and 16 (318 takes
all routes away, 25 makes the broker do one thing only).
"""

from __future__ import annotations

import json
import struct
import zlib

import pytest

from support.attack.arena import Arena
from support.attack.beside import TOPIC
from support.attack.peers import Heard, Peer, asked, flood, frame
from support.attack.said import SEND, send_fields
from support.attack.victim import MB, until

BROKER_CONFIG, NAMESRV_CONFIG, REGISTER, UNREGISTER, ROUTE = 25, 318, 103, 104, 105
CHECKED_S = 4.0


def route(arena: Arena, topic: str = TOPIC) -> Heard:
    return asked(arena.namesrv, ROUTE, {"topic": topic})


def test_large_settings_cost_next_to_nothing(arena: Arena) -> None:
    body = b"".join(b"k%d=v\n" % number for number in range(1_200_000))
    small = body[:60_000]  # is read
    with arena.attack("settings: 25 and 318 with 60 kB x 30", cpu_s=3):
        assert flood(arena.broker, [frame(BROKER_CONFIG, body=small)] * 30).total() == 30
        assert flood(arena.namesrv, [frame(NAMESRV_CONFIG, body=small)] * 30).total() == 30
    with arena.attack("settings: 25 with 12 MB x 3", cpu_s=3, grow_mb=200):
        flood(arena.broker, [frame(BROKER_CONFIG, body=body)] * 3)
    with arena.attack("settings: 318 with 12 MB x 3", cpu_s=3, grow_mb=200):
        flood(arena.namesrv, [frame(NAMESRV_CONFIG, body=body)] * 3)


def test_no_setting_takes_all_routes_away(arena: Arena) -> None:
    body = b"needWaitForService=true\nwaitSecondsForService=86400\n"
    with arena.attack("settings: 318 asks for a day without routes", cpu_s=3):
        asked(arena.namesrv, NAMESRV_CONFIG, body=body)
        assert route(arena).code == 0


def test_no_setting_makes_one_thing_all_the_broker_does(arena: Arena) -> None:
    texts = ("transactionTimeOut=0", "transactionCheckMax=1000000", "transactionCheckInterval=1")
    properties = "TRAN_MSG\x01true\x02PGROUP\x01P\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x010\x02"
    fields = send_fields("Halves", properties=properties, sys_flag=4)
    assert asked(arena.broker, SEND, fields, b"half").code == 0
    log_bytes, stored = len(arena.victim.log()), arena.victim.stored_bytes()
    with arena.attack("settings: 25 checks one half message all the time", cpu_s=1.5):
        for text in (*texts, "shortPollingTimeMills=1"):
            asked(arena.broker, BROKER_CONFIG, body=text.encode())
        until(lambda: False, CHECKED_S)  # the time is the attack
    assert len(arena.victim.log()) - log_bytes < 100_000
    assert arena.victim.stored_bytes() - stored < 20 * MB


def registration(broker: str, name: str, version: int = 2**62) -> dict[str, object]:
    return {
        "brokerName": name,
        "brokerAddr": broker,
        "clusterName": "DefaultCluster",
        "haServerAddr": "127.0.0.1:1",
        "brokerId": 0,
        "bodyCrc32": 0,
        "version": version,
    }


def topics_body(names: list[str]) -> bytes:
    topics = {
        name: {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
        for name in names
    }
    stamp = {"counter": 2**62, "timestamp": 2**62, "stateVersion": 2**62}
    table = {"topicConfigTable": topics, "dataVersion": stamp}
    return json.dumps({"topicConfigSerializeWrapper": table, "filterServerList": []}).encode()


@pytest.mark.parametrize("count", [40_000, 400_000])
def test_a_large_registration_holds_up_nobody(arena: Arena, count: int) -> None:
    def sized(text: bytes) -> bytes:
        return struct.pack(">i", len(text)) + text

    parts = [sized(b'{"counter":1,"timestamp":1,"stateVersion":1}'), struct.pack(">i", count)]
    parts += [sized(b"t%d 1 1 6 SINGLE_TAG" % number) for number in range(count)]
    body = zlib.compress(b"".join([*parts, sized(b"[]"), struct.pack(">i", 0)]), 9)
    fields = {**registration("127.0.0.1:2", "large"), "compressed": "true"}
    with arena.attack(f"settings: 103 with {count:,} topics, packed", cpu_s=15, grow_mb=700):
        flood(arena.namesrv, [frame(REGISTER, fields, body)])


def test_nobody_takes_the_place_of_the_broker_or_sends_it_away(arena: Arena) -> None:
    """`serve` knows its own broker; at a name server alone a stranger's word counts."""
    before = route(arena).body
    with arena.attack("settings: 103 and 104 in the broker's place", cpu_s=5):
        for address in ("127.0.0.1:1", arena.broker):
            fields = registration(address, "victim")
            with Peer(arena.namesrv) as stranger:
                for code, body in ((REGISTER, topics_body([TOPIC, "Other"])), (UNREGISTER, b"")):
                    heard = stranger.ask(code, fields, body)
                    assert heard is not None
                    assert heard.code != 0
                    assert route(arena).body == before
    assert route(arena).body == before
