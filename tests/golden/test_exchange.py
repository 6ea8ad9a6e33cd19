"""Recorded frames are matched to exchanges, few are chosen, and the golden file keeps its word."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.golden.exchange import Exchange, choose, lines, pair_up, peek
from support.interop.proxy import RecordedFrame

FRAMES = Path(__file__).parent / "frames.jsonl"
SIZE_BYTES_MAX = 600_000
CODES_MIN = 65
JAVA = ("java-4.9.8", "java-5.3.3")
OTHERS = ("go-2.1.2", "node-ali-ons-3.12.0", "python-binding-0.4.4", "probe")


def frame(code: int, opaque: int, flag: int = 0, **fields: str) -> bytes:
    header = json.dumps({"code": code, "opaque": opaque, "flag": flag, "extFields": fields})
    return struct.pack(">II", 4 + len(header), len(header)) + header.encode()


def golden() -> Iterator[dict[str, Any]]:
    return map(json.loads, FRAMES.read_text().splitlines())


def test_an_answer_finds_its_request_by_connection_and_number() -> None:
    recorded = [
        RecordedFrame(1, True, frame(105, 7)),
        RecordedFrame(2, True, frame(34, 7)),
        RecordedFrame(2, False, frame(0, 7, flag=1)),
        RecordedFrame(1, False, frame(17, 7, flag=1)),
    ]

    exchanges = list(pair_up(recorded, "java-4.9.8", "4.9.7", "client", "namesrv"))

    answers = [(peek(one.request).code, peek(one.answer or b"").code) for one in exchanges]
    assert answers == [(34, 0), (105, 17)]


def test_a_server_that_asks_its_client_is_told_apart_from_the_client_that_asks() -> None:
    recorded = [
        RecordedFrame(1, True, frame(307, 3)),
        RecordedFrame(1, False, frame(307, 3)),
        RecordedFrame(1, True, frame(0, 3, flag=1, by="client")),
        RecordedFrame(1, False, frame(0, 3, flag=1, by="broker")),
    ]

    exchanges = list(pair_up(recorded, "java-4.9.8", "4.9.7", "client", "broker"))

    assert [(one.near, b'"client"' in (one.answer or b"")) for one in exchanges] == [
        ("broker", True),
        ("client", False),
    ]


def test_a_request_that_nobody_answers_is_kept_alone() -> None:
    recorded = [
        RecordedFrame(1, True, frame(15, 1, flag=2)),
        RecordedFrame(1, True, frame(11, 2)),
    ]

    exchanges = list(pair_up(recorded, "java-4.9.8", "4.9.7", "client", "broker"))

    kinds = [line["kind"] for line in lines(exchanges, 1)]
    assert kinds == ["oneway", "unanswered"]


def test_of_one_kind_the_shortest_is_chosen_and_another_answer_is_another_kind() -> None:
    def exchange(answer: bytes) -> Exchange:
        return Exchange("java-4.9.8", "4.9.7", "client", "namesrv", frame(105, 1), answer)

    long, short = frame(0, 1, flag=1, topic="long"), frame(0, 1, flag=1)
    refused = frame(17, 1, flag=1)

    chosen = choose(map(exchange, (long, short, refused)))

    assert [one.answer for one in chosen] == [short, refused]


def test_another_generation_is_chosen_only_for_what_it_says_differently() -> None:
    def exchange(client: str, **fields: str) -> Exchange:
        return Exchange(client, "4.9.7", "client", "broker", frame(38, 1, 0, **fields))

    own = exchange("java-4.9.8", group="a")
    same, more = exchange("java-5.3.3", group="b"), exchange("java-5.3.3", group="b", lo="true")

    assert choose([own, same]) == [own]
    assert choose([own, more]) == [own, more]


def test_the_golden_frames_are_whole_and_their_lines_tell_the_truth() -> None:
    for line in golden():
        octets = bytes.fromhex(line["frame_hex"])
        seen = peek(octets)

        assert len(octets) == 4 + int.from_bytes(octets[:4], "big")
        assert (seen.flag & 1 == 1) is (line["role"] == "answer")
        assert seen.binary is ("binary header" in line["kind"])
        if line["role"] == "request":
            assert seen.code == line["code"]
        else:
            assert line["kind"].startswith(f"answered {seen.code}")


def test_a_golden_pair_is_one_request_and_at_most_one_answer_to_it() -> None:
    pairs: dict[int, list[dict[str, Any]]] = {}
    for line in golden():
        pairs.setdefault(line["pair"], []).append(line)

    for pair in pairs.values():
        assert [line["role"] for line in pair] in (["request"], ["request", "answer"])
        assert len({peek(bytes.fromhex(line["frame_hex"])).opaque for line in pair}) == 1
        assert len({(line["client"], line["broker"], line["code"]) for line in pair}) == 1


@pytest.mark.parametrize("binary", [False, True])
def test_the_golden_frames_show_most_of_the_protocol_in_both_forms(binary: bool) -> None:
    codes = {
        (line["code"], line["role"])
        for line in golden()
        if ("binary header" in line["kind"]) is binary
    }

    assert len({code for code, role in codes if role == "request"}) >= CODES_MIN
    assert len({code for code, role in codes if role == "answer"}) >= CODES_MIN - 10


def test_the_golden_frames_show_every_client_against_both_brokers_in_a_small_file() -> None:
    counts = Counter((line["client"], line["broker"]) for line in golden())

    assert set(counts) >= {
        (client, broker) for client in (*JAVA, *OTHERS) for broker in ("4.9.7", "5.3.3")
    }
    assert FRAMES.stat().st_size < SIZE_BYTES_MAX
