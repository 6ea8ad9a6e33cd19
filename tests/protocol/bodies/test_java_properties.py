"""Properties text means what it means to `java.util.Properties`."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import MalformedBody
from flintmq.protocol.bodies.java_properties import read_properties, write_properties
from flintmq.protocol.fastjson import BODY_BYTES_MAX

TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" =:#!\\\n\t\f\r"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("nosuchkey=1", {"nosuchkey": "1"}),
        ("a=1\nb=2\r\nc=3\rd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("a = 1 \nb:2\nc 3\nd\te", {"a": "1 ", "b": "2", "c": "3", "d": "e"}),
        ("# note\n! note\n\n  \t\n  a=1", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("key", {"key": ""}),
        ("=value", {"": "value"}),
        ("a==b", {"a": "=b"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("path=C\\:\\\\x\\ty", {"path": "C:\\x\ty"}),
        ("long=a,\\\n   b,\\\r\n\tc", {"long": "a,b,c"}),
        ("long=a\\", {"long": "a"}),
        ("even=a\\\\\nb=1", {"even": "a\\", "b": "1"}),
        ("a=1\\\n#b=2", {"a": "1#b=2"}),
        ("\\\n# note\n\\\n", {}),
        ("u=\\u4e2d\\uD83D\\uDE00\\q", {"u": "中😀q"}),
        ("messageDelayLevel=1s 5s 10s", {"messageDelayLevel": "1s 5s 10s"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert read_properties(text.encode()) == expected


def test_utf8_is_read_and_so_is_latin_1() -> None:
    assert read_properties("a=é中".encode()) == {"a": "é中"}
    assert read_properties("a=é".encode("latin-1")) == {"a": "é"}


def test_what_java_would_take_amiss_is_escaped() -> None:
    body = write_properties({"a b": " c", "p": "C:\\x", "#k": "é😀\n", "plain": "a=b:c #d"})

    assert body == (b"a\\ b=\\ c\np=C:\\\\x\n\\#k=\\u00e9\\ud83d\\ude00\\n\nplain=a=b:c #d\n")


@given(st.dictionaries(TEXT, TEXT, max_size=5))
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    assert read_properties(write_properties(properties)) == properties


@given(st.binary(max_size=80))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(MalformedBody):
        read_properties(body)


@pytest.mark.parametrize("body", [b"a=\\u12", b"\\u12g4=1", b"a=\\u"])
def test_an_escape_without_its_four_digits_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedBody, match="four digits"):
        read_properties(body)


def test_a_text_over_the_limit_is_refused() -> None:
    with pytest.raises(MalformedBody):
        read_properties(b"a" * (BODY_BYTES_MAX + 1))
