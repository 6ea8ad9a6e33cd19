"""Hypothesis: records, properties and commands that every release of RocketMQ can hold.

Left out is what Java cannot tell apart: an IPv4 address mapped into IPv6 is an IPv4 address
there, and text that is no Unicode has no bytes.
"""

from __future__ import annotations

from hypothesis import strategies as st

from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from flintmq.protocol.command import Command
from flintmq.protocol.fields import write_fields
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record import Record, Version, crc_of

V4_MAPPED = b"\0" * 10 + b"\xff\xff"
NAMED_BITS = 0b1110  # multi tags and transaction; compression and inner batches change the body
LANGUAGES = ("JAVA", "CPP", "PYTHON", "GO", "OTHER", "RUST")  # numbers that 4.9 knows too

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
times_ms = st.integers(0, 2**62)
offsets = st.integers(0, 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
v4_addresses = st.binary(min_size=4, max_size=4)
v6_addresses = st.binary(min_size=16, max_size=16).filter(lambda ip: not ip.startswith(V4_MAPPED))
addresses = v4_addresses | v6_addresses
hosts = st.builds(Host, addresses, st.integers(0, 0xFFFF))

property_texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=20
)
property_names = property_texts | st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "DELAY"])
property_maps = st.dictionaries(property_names, property_texts, max_size=5)

topics = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
long_topics = st.text("abcdefghijk%_-", min_size=128, max_size=255)


@st.composite
def records(draw: st.DrawFn, version: Version = Version.V1) -> Record:
    body = draw(st.binary(max_size=100))
    born_host, store_host = draw(hosts), draw(hosts)
    bits = BORN_HOST_V6 * born_host.is_v6 | STORE_HOST_V6 * store_host.is_v6
    return Record(
        version=version,
        body_crc=crc_of(body),
        queue_id=draw(int32),
        flag=draw(int32),
        queue_offset=QueueOffset(draw(offsets)),
        log_offset=LogOffset(draw(offsets)),
        sys_flag=draw(st.integers(0, 15)) & NAMED_BITS | bits,
        born_ms=draw(times_ms),
        born_host=born_host,
        store_ms=draw(times_ms),
        store_host=store_host,
        reconsume_times=draw(int32),
        prepared_offset=LogOffset(draw(offsets)),
        body=body,
        topic=draw(topics if version is Version.V1 else long_topics),
        properties=encode_properties(draw(property_maps), trailing_separator=draw(st.booleans())),
    )


def commands(
    codes: st.SearchStrategy[int], field_values: st.SearchStrategy[str]
) -> st.SearchStrategy[Command]:
    fields = st.dictionaries(texts.filter(bool), field_values, max_size=5)
    return st.builds(
        Command,
        code=codes,
        opaque=int32,
        flag=st.integers(0, 3),
        version=int16,
        language=st.sampled_from(LANGUAGES),
        remark=st.none() | texts.filter(bool),
        fields=fields.map(write_fields),
        body=st.binary(max_size=50),
    )
