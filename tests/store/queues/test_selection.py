"""What a subscription wants is told from units where possible, and the record's own tag has the
last word.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.model.java_hash import tags_code
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import Record, encode_record
from flintmq.store.queues.selection import EVERYTHING, Selection
from support.record_examples import property_strings, records
from support.store.stored import draft


def view(**properties: str) -> memoryview:
    return memoryview(draft(b"TAGS\x01body\x02TAGS\x01", "T", 0, 0, **properties).octets())


def test_everything_looks_at_nothing() -> None:
    assert not EVERYTHING.looks_at_units
    assert not EVERYTHING.looks_at_records
    assert EVERYTHING.takes(view(), 5)


def test_a_tag_wherever_it_stands_is_found() -> None:
    wanted = Selection(frozenset({tags_code("x")}))

    assert wanted.takes(view(TAGS="x"), tags_code("x"))
    assert wanted.takes(view(TAGS="x", a="b"), tags_code("x"))
    assert wanted.takes(view(a="b", TAGS="x"), tags_code("x"))
    assert wanted.takes(view(a="TAGS\x01z", TAGS="x", c="TAGS\x01y"), tags_code("x"))


def test_a_record_with_another_tag_than_its_unit_says_is_judged_by_its_own() -> None:
    wanted = Selection(frozenset({tags_code("x"), tags_code("y")}))

    assert wanted.takes(view(TAGS="y"), tags_code("x"))
    assert not wanted.takes(view(TAGS="z"), tags_code("x"))
    assert not wanted.takes(view(), tags_code("x"))


def test_a_record_that_cannot_be_measured_has_no_tag() -> None:
    wanted = Selection(frozenset({tags_code("x"), 0}))
    broken = bytearray(draft(TAGS="y").octets())
    broken[87] = 200  # the length of its body

    assert not wanted.takes(memoryview(broken), tags_code("x"))


def test_tag_and_record_filter_must_both_agree() -> None:
    wanted = Selection(frozenset({tags_code("x")}), record=lambda record: len(record) > 130)

    assert wanted.takes(view(TAGS="x", more="y" * 100), tags_code("x"))
    assert not wanted.takes(view(TAGS="x"), tags_code("x"))


@settings(max_examples=300, deadline=None)
@given(records(property_strings()), st.sampled_from(["a", "TAGS", "é", "T"]))
def test_the_quick_look_and_the_long_one_agree(record: Record, tag: str) -> None:
    own = tags_code(parse_properties(record.properties).get("TAGS"))
    octets = memoryview(encode_record(record))

    assert Selection(frozenset({own})).takes(octets, own)
    if tags_code(tag) != own:
        assert not Selection(frozenset({tags_code(tag)})).takes(octets, tags_code(tag))
