"""Records for tests: what real brokers wrote, and what Hypothesis makes up."""

from __future__ import annotations

import json
import struct
import tarfile
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from flintmq.kernel.layout import V6_BITS
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from flintmq.protocol.records.record import Record, Version, crc_of, is_filler, record_size

GOLDEN = Path(__file__).parents[1] / "golden"
STORES = ("golden-4.9.7", "golden-5.3.3", "golden-ext-4.9.7", "golden-ext-5.3.3")

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)

# The record of the worked example in the description of the format, field by field.
EXAMPLE = bytes.fromhex(
    "00000068daa320a758932aac00000003000000000000000000000005000000000000040000000000"
    "0000018bcfe568000a00000200009c400000018bcfe568010a00000100002a9f0000000000000000"
    "00000000000000026869" + "0154" + "000a" + "54414753015461674102"
)

BACKWARDS = EXAMPLE[:88] + bytes([0, 14, 0xFD]) + EXAMPLE[91:]
"""The same with a topic of -3 bytes, and a body that would make the sum come out right."""


@cache
def golden_records() -> list[dict[str, Any]]:
    """The rows of ``golden/records.jsonl``, described in ``records.md``."""
    return _rows("records.jsonl")


@cache
def golden_batches() -> list[dict[str, Any]]:
    return _rows("batches.jsonl")


def _rows(name: str) -> list[dict[str, Any]]:
    lines = (GOLDEN / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def commit_logs(store: str) -> list[bytes]:
    """The commit log files of a real broker's store, in order."""
    with tarfile.open(GOLDEN / "stores" / f"{store}.tgz") as archive:
        names = sorted(name for name in archive.getnames() if "/commitlog/0" in name)
        files = [archive.extractfile(name) for name in names]
        return [file.read() for file in files if file is not None]


def stored_messages(store: str) -> dict[int, dict[str, Any]]:
    """What the store's manifest says of every record, by log offset."""
    manifest = json.loads((GOLDEN / "stores" / f"{store}.manifest.json").read_bytes())
    messages = manifest["messages"] + manifest["not_readable_by_pull"]
    return {message["commitLogOffset"]: message for message in messages}


def record_positions(log: bytes) -> Iterator[int]:
    """Where the records of one commit log file start."""
    at = 0
    while at < len(log) and record_size(log, at) > 0 and not is_filler(log, at):
        yield at
        at += record_size(log, at)


def hosts() -> SearchStrategy[Host]:
    packed = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)
    return st.builds(Host, packed, INT32)


def property_strings(
    names: tuple[str, ...] = ("TAGS", "KEYS", "UNIQ_KEY"),
) -> SearchStrategy[bytes]:
    """Property strings good and bad: separators anywhere, names inside names and values."""
    name = st.sampled_from([*names, *(f"X{n}" for n in names), *(f"{n}X" for n in names), "k", ""])
    text = st.text(st.sampled_from("aTAGSé\x01 0😀"), max_size=12)
    nested = st.builds("{}\x01{}".format, st.sampled_from(names), text)
    value = text | nested
    piece = st.builds("{}\x01{}\x02".format, name, value).map(str.encode)
    noise = st.sampled_from(
        [b"\x01", b"\x02", b"TAGS", b"\x02TAGS\x01", b"\xff", b"\x00", b"S\x01"]
    )
    return st.lists(piece | noise, max_size=6).map(b"".join)


_LAYOUTS = list(product(Version, (4, 16), (4, 16)))
_TOPICS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_ANY_PROPERTIES = st.binary(max_size=60)
_NUMBERS = struct.Struct(">iiqqiqqiq16si16si")


@st.composite
def records(draw: st.DrawFn, properties: SearchStrategy[bytes] | None = None) -> Record:
    """Any record there can be, with a right checksum.

    All numbers come from one draw, or making records up would take longer than testing.
    """
    numbers = draw(st.binary(min_size=_NUMBERS.size, max_size=_NUMBERS.size))
    queue_id, flag, queue_offset, log_offset, sys_flag, born_ms, store_ms, times, prepared = (
        _NUMBERS.unpack(numbers)[:9]
    )
    born_ip, born_port, store_ip, store_port = _NUMBERS.unpack(numbers)[9:]
    version, born_width, store_width = draw(st.sampled_from(_LAYOUTS))
    born, store = Host(born_ip[:born_width], born_port), Host(store_ip[:store_width], store_port)
    bits = BORN_HOST_V6 * born.is_v6 | STORE_HOST_V6 * store.is_v6
    body = draw(st.binary(max_size=40))
    return Record(
        version=version,
        body_crc=crc_of(body),
        queue_id=queue_id,
        flag=flag,
        queue_offset=QueueOffset(queue_offset),
        log_offset=LogOffset(log_offset),
        sys_flag=sys_flag & ~V6_BITS | bits,
        born_ms=born_ms,
        born_host=born,
        store_ms=store_ms,
        store_host=store,
        reconsume_times=times,
        prepared_offset=LogOffset(prepared),
        body=body,
        topic=draw(_TOPICS),
        properties=draw(_ANY_PROPERTIES if properties is None else properties),
    )


@st.composite
def mutated(draw: st.DrawFn, octets: SearchStrategy[bytes]) -> bytes:
    """Bytes with a few of them changed, cut off, or with others in between."""
    changed = bytearray(draw(octets))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed)))
        kind = draw(st.sampled_from(["change", "cut", "insert", "number"]))
        if kind == "change" and at < len(changed):
            changed[at] = draw(st.integers(0, 255))
        elif kind == "cut":
            del changed[at:]
        elif kind == "insert":
            changed[at:at] = draw(st.binary(max_size=5))
        elif kind == "number":
            value = draw(st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 91, 90, 127, 128]))
            changed[at : at + 4] = value.to_bytes(4, "big", signed=True)
    return bytes(changed)
