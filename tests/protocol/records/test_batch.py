"""A batch is read only if its entries fill it to the byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import LocalProtocolError, MalformedBody
from flintmq.kernel.python import batches
from flintmq.protocol.records import batch as batch_module
from flintmq.protocol.records.batch import BatchEntry, decode_batch, encode_batch
from flintmq.protocol.records.properties import PROPERTIES_BYTES_MAX
from support.record_examples import INT32, golden_batches, mutated

EXAMPLE = bytes.fromhex(
    "00000017000000000000000000000000000000016100000000001e00000000000000000000000000000001"
    "62000754414753017802"
)
ENTRIES = st.lists(
    st.builds(BatchEntry, st.binary(max_size=20), st.binary(max_size=20), INT32), min_size=1
)


def test_the_worked_example() -> None:
    entries = [BatchEntry(b"a"), BatchEntry(b"b", b"TAGS\x01x\x02")]

    assert encode_batch(entries) == EXAMPLE
    assert decode_batch(EXAMPLE) == entries


@pytest.mark.parametrize("row", golden_batches(), ids=lambda row: row["client"])
def test_what_other_clients_send_is_read_and_written_again(row: dict[str, Any]) -> None:
    octets = bytes.fromhex(row["hex"])

    entries = decode_batch(octets)

    assert len(entries) == row["count"]
    assert [entry.body for entry in entries] == [b"b%d" % n for n in range(row["count"])]
    assert encode_batch(entries) == octets


@settings(max_examples=200, deadline=None)
@given(ENTRIES)
def test_what_is_written_is_read_again(entries: list[BatchEntry]) -> None:
    octets = encode_batch(entries)

    assert decode_batch(octets) == decode_batch(memoryview(octets)) == entries


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80) | mutated(ENTRIES.map(encode_batch)))
def test_any_bytes_are_a_batch_or_refused(octets: bytes) -> None:
    try:
        entries = decode_batch(octets)
    except MalformedBody:
        return

    assert len(encode_batch(entries)) == len(octets)


@pytest.mark.parametrize("length", range(len(EXAMPLE)))
def test_a_batch_that_is_cut_off_is_refused(length: int) -> None:
    if length == 23:  # the first entry alone
        assert len(decode_batch(EXAMPLE[:length])) == 1
    else:
        with pytest.raises(MalformedBody):
            decode_batch(EXAMPLE[:length])


@pytest.mark.parametrize(
    ("at", "number"),
    [
        (0, b"\0\0\0\x16"),
        (0, b"\0\0\0\x18"),
        (0, b"\xff\xff\xff\xff"),
        (16, b"\0\0\0\2"),
        (16, b"\0\0\0\0"),
        (16, b"\xff\xff\xff\xff"),
        (23, b"\0\0\0\x1f"),
        (44, b"\0\6"),
        (44, b"\0\x08"),
        (44, b"\xff\xff"),
    ],
)
def test_a_size_that_does_not_fit_is_refused(at: int, number: bytes) -> None:
    octets = EXAMPLE[:at] + number + EXAMPLE[at + len(number) :]

    with pytest.raises(MalformedBody):
        decode_batch(octets)


def test_a_batch_has_at_least_one_message() -> None:
    with pytest.raises(LocalProtocolError):
        encode_batch([])
    with pytest.raises(MalformedBody, match="empty"):
        decode_batch(b"")


def test_a_batch_of_too_many_messages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "BATCH_ENTRIES_MAX", 3)
    monkeypatch.setattr(batches, "ENTRIES_MAX", 3)
    assert len(decode_batch(encode_batch([BatchEntry(b"")] * 3))) == 3

    with pytest.raises(MalformedBody, match="more than 3"):
        decode_batch(encode_batch([BatchEntry(b"")] * 4))


@pytest.mark.parametrize(
    "entry", [BatchEntry(b"", bytes(PROPERTIES_BYTES_MAX + 1)), BatchEntry(b"", b"", 2**31)]
)
def test_what_the_format_cannot_hold_is_not_written(entry: BatchEntry) -> None:
    with pytest.raises(LocalProtocolError):
        encode_batch([entry])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.binary(min_size=3, max_size=3), INT32), min_size=1),
    st.integers(0, 3),
    st.binary(min_size=1, max_size=1),
)
def test_messages_of_one_size_are_read_as_any_others(
    given_parts: list[tuple[bytes, int]], at: int, octet: bytes
) -> None:
    """They are split in one go; a byte more or less in one of them must not go unnoticed."""
    entries = [BatchEntry(body, b"T\x01x\x02", flag) for body, flag in given_parts]
    octets = encode_batch(entries)

    assert decode_batch(octets) == entries
    other = [*entries, BatchEntry(b"longer", b"")]
    assert decode_batch(encode_batch(other)) == other
    last = len(octets) - len(octets) // len(entries)
    torn = octets[: last + at] + octet + octets[last + at + 1 :]
    if torn != octets:
        with pytest.raises(MalformedBody):
            decode_batch(torn)
