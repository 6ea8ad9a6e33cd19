"""How fast frames and headers are read and written, against the JSON library alone.

A server reads many small requests at once, so a read here is 64 frames of a Java producer.
The bar is what msgspec needs to turn the same headers into plain dictionaries: frames that
are cut out, typed and checked may cost half as much again.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import msgspec

from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import answer, request
from flintmq.protocol.frame import FrameReader, HeaderForm
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.headers.send import SendAnswer, SendMessageV2
from flintmq.protocol.typed_request import RequestReader
from flintmq.protocol.wire import decode_command, encode_command

FRAMES_PER_READ = 64
READS_PER_ROUND = 100
ROUNDS = 15

SEND = SendMessageV2(
    producer_group="shop_producers",
    topic="orders",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=3,
    sys_flag=0,
    born_timestamp=1_763_254_800_123,
    flag=0,
    properties="KEYS\x01order-17\x02UNIQ_KEY\x017F0000010A2C18B4AAC2A0B4C5D60000\x02WAIT\x01true\x02",
    broker_name="broker-a",
)
TAKEN = SendAnswer(
    msg_id="7F00000100002A9F0000000000299270",
    queue_id=3,
    queue_offset=123_456,
    transaction_id="7F0000010A2C18B4AAC2A0B4C5D60000",
    trace_on="true",
    region="DefaultRegion",
)


BAR = "header to a dict, by msgspec alone"
TYPED = "cut and type a send"


def run() -> list[dict[str, object]]:
    cost_s = least_cpu_s(reading() | writing())
    ratio = cost_s[TYPED] / cost_s[BAR]
    return [
        {"name": f"{TYPED}, against {BAR}", "value": ratio, "unit": "x", "goal": "<= 1.5"},
        *(
            {"name": name, "value": 1 / spent_s, "unit": "frames/s"}
            for name, spent_s in cost_s.items()
        ),
    ]


def reading() -> dict[str, Callable[[], object]]:
    """What is done to one read of 64 frames, by name."""
    asked = request(RequestCode.SEND_MESSAGE_V2, SEND, b"x" * 128, opaque=4_711)
    stream = encode_command(asked) * FRAMES_PER_READ
    binary = encode_command(asked, HeaderForm.BINARY) * FRAMES_PER_READ
    frames, requests = FrameReader(), RequestReader(REQUEST_HEADERS)
    headers = [header for _, header, _ in frames.feed(stream)]
    to_dict = msgspec.json.Decoder(dict[str, object]).decode
    return {
        TYPED: lambda: [requests.read(frame) for frame in frames.feed(stream)],
        BAR: lambda: [to_dict(header) for header in headers],
        "cut and decode a send": lambda: [decode_command(f) for f in frames.feed(stream)],
        "the same, binary": lambda: [decode_command(f) for f in frames.feed(binary)],
        "cut only": lambda: frames.feed(stream),
    }


def writing() -> dict[str, Callable[[], object]]:
    """What is done 64 times, by name."""
    asked, times = request(RequestCode.SEND_MESSAGE_V2, SEND), range(FRAMES_PER_READ)
    return {
        "write an answer to a send": lambda: [
            encode_command(answer(asked, 0, TAKEN)) for _ in times
        ],
        "write a send": lambda: [
            encode_command(request(RequestCode.SEND_MESSAGE_V2, SEND)) for _ in times
        ],
    }


def least_cpu_s(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """CPU seconds per frame of each job, the least of several rounds in which all take turns."""
    least = dict.fromkeys(jobs, float("inf"))
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            start = process_time()
            for _ in range(READS_PER_ROUND):
                job()
            spent_s = process_time() - start
            least[name] = min(least[name], spent_s / (READS_PER_ROUND * FRAMES_PER_READ))
    return least
