"""A pull from the template is, byte for byte, the header written in full."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import LocalProtocolError
from flintmq.protocol.fields import write_header
from flintmq.protocol.headers.pull import PullMessage
from flintmq.protocol.headers.pull_template import pull_fields

NUMBERS = st.integers(0, 2**31 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


@settings(max_examples=60)
@given(TEXTS, TEXTS, TEXTS, NUMBERS, NUMBERS, OFFSETS, NUMBERS, OFFSETS, st.none() | TEXTS)
def test_the_template_writes_what_the_header_writes(
    group: str,
    topic: str,
    broker: str,
    queue_id: int,
    count_max: int,
    offset: int,
    flags: int,
    commit_offset: int,
    subscription: str | None,
) -> None:
    header = PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=count_max,
        sys_flag=flags,
        commit_offset=commit_offset,
        suspend_timeout_millis=15_000,
        subscription=subscription,
        sub_version=7,
        expression_type="TAG",
        max_msg_bytes=262_144,
        broker_name=broker,
    )

    fields = pull_fields(
        group,
        topic,
        broker,
        queue_id,
        count_max=count_max,
        bytes_max=262_144,
        suspend_ms=15_000,
        subscription=subscription,
        sub_version=7,
        expression_type="TAG",
        offset=offset,
        flags=flags,
        commit_offset=commit_offset,
    )

    assert bytes(fields) == bytes(write_header(header))


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        pull_fields(
            "g",
            "t",
            "b",
            0,
            count_max=1,
            bytes_max=1,
            suspend_ms=0,
            subscription="\ud800",
            sub_version=0,
            expression_type="SQL92",
            offset=0,
            flags=0,
            commit_offset=0,
        )
