"""A header from the template is, byte for byte, the header written in full."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import LocalProtocolError
from flintmq.protocol.fields import write_header
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.headers.send_template import SendFields

NUMBERS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


@settings(max_examples=60)
@given(TEXTS, TEXTS, NUMBERS, TEXTS, NUMBERS, st.integers(0, 2**60), NUMBERS, TEXTS, st.booleans())
def test_the_template_writes_what_the_header_writes(
    group: str,
    topic: str,
    queue_id: int,
    broker: str,
    sys_flag: int,
    born_ms: int,
    flag: int,
    properties: str,
    is_batch: bool,
) -> None:
    fields = SendFields(
        group,
        topic,
        queue_id,
        broker,
        default_topic="TBW102",
        default_queue_count=4,
        reconsume_times=2,
        max_reconsume_times=16,
        unit_mode=True,
        is_batch=is_batch,
    )
    header = SendMessageV2(
        producer_group=group,
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=born_ms,
        flag=flag,
        properties=properties,
        reconsume_times=2,
        max_reconsume_times=16,
        unit_mode=True,
        is_batch=is_batch,
        broker_name=broker,
    )

    assert bytes(fields.fill(sys_flag, born_ms, flag, properties)) == bytes(write_header(header))


def test_percent_signs_are_text() -> None:
    fields = SendFields("g%d", "ns%t", 0, "%s", default_topic="%b", default_queue_count=4)

    assert b'"b":"ns%t"' in bytes(fields.fill(0, 0, 0, "100%d"))


def test_properties_that_are_no_text_are_refused() -> None:
    fields = SendFields("g", "t", 0, "b", default_topic="d", default_queue_count=4)

    with pytest.raises(LocalProtocolError):
        fields.fill(0, 0, 0, "\ud800")
