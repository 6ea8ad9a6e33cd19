"""A header is cut only where what is cut out can be replaced without changing the rest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.protocol.codes import RequestCode
from flintmq.protocol.frame import Frame
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.headers.send_cut import cut_send, fit, vary_send
from flintmq.protocol.typed_request import RequestReader, TypedRequest

HEADER = (
    b'{"code":310,"extFields":{"a":"group","b":"orders","c":"TBW102","d":"4","e":"3","f":"0",'
    b'"g":"1794822740260","h":"0","i":"UNIQ_KEY\\u0001FD02\\u0002WAIT\\u0001true\\u0002",'
    b'"j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA",'
    b'"opaque":55564,"serializeTypeCurrentRPC":"JSON","version":479}'
)
read = RequestReader({RequestCode.SEND_MESSAGE_V2: SendMessageV2}).read


def frame(header: bytes = HEADER) -> Frame:
    return 0, header, b"body"


def test_the_pieces_of_a_header() -> None:
    cut = cut_send(frame())

    assert cut is not None
    shape, time, before, unique_id, after, opaque = cut
    assert (time, unique_id, opaque) == (b"1794822740260", b"FD02", b"55564")
    assert before == b"UNIQ_KEY\\u0001"
    assert after == b"\\u0002WAIT\\u0001true\\u0002"
    assert len(shape) == len(HEADER) - len(b"".join(cut[1:]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"code":310', b'"code":10'),
        (b'"g":"1794822740260"', b'"g":"0794822740260"'),
        (b'"g":"1794822740260"', b'"g":"179482274026"'),
        (b'"g":"1794822740260"', b'"g":1794822740260'),
        (b'"g":', b'"G":'),
        (b'"i":', b'"I":'),
        (b"UNIQ_KEY", b"UNIQ_KEX"),
        (b"FD02", b"FD-2"),
        (b"FD02", b"FD\\u00412"),
        (b"FD02", b""),
        (b"FD02", "FDé2".encode()),
        (b'"opaque":55564', b'"opaque":0'),
        (b'"opaque":55564', b'"opaque":-5'),
        (b'"opaque":55564', b'"opaque":1234567890'),
        (b'"opaque":55564', b'"opaque":"55"'),
        (b'"opaque":55564', b'"Opaque":55564'),
    ],
)
def test_what_is_written_otherwise_is_not_cut(old: bytes, new: bytes) -> None:
    assert old in HEADER

    assert cut_send(frame(HEADER.replace(old, new))) is None


def test_a_header_in_binary_form_is_not_cut() -> None:
    assert cut_send((1, HEADER, b"")) is None


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60) | st.integers(0, len(HEADER) - 1).map(lambda stop: HEADER[:stop]))
def test_a_part_of_a_header_never_passes_for_the_whole(header: bytes) -> None:
    whole = cut_send(frame())
    assert whole is not None

    cut = cut_send(frame(header))

    assert cut is None or cut[0] != whole[0]
    assert fit(frame(), whole).values(header) is None


VALUES = st.tuples(
    st.integers(10**12, 10**13 - 1),
    st.from_regex(r"[0-9A-Za-z]{4}", fullmatch=True),
    st.integers(1, 10**9 - 1),
)


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_other_values_leave_everything_else_as_it_is(values: tuple[int, str, int]) -> None:
    cut = cut_send(frame())
    assert cut is not None
    time_ms, unique_id, opaque = values

    varied = vary_send(frame(), cut, time_ms, unique_id, opaque)

    again = cut_send(varied)
    assert again is not None
    assert (again[0], again[2], again[4]) == (cut[0], cut[2], cut[4])
    request = read(varied)
    assert isinstance(request, TypedRequest)
    assert request.header.born_timestamp == time_ms
    assert request.header.properties == f"UNIQ_KEY\x01{unique_id}\x02WAIT\x01true\x02"
    assert request.opaque == opaque
    assert fit(frame(), cut).values(varied[1]) == (again[1], again[3], again[5])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"h":"0"', b'"h":"1"'),
        (b"FD02", b"FD023"),
        (b"FD02", b"FD0-"),
        (b"true", b"True"),
        (b"479}", b"478}"),
        (b'"opaque":55564', b'"opaque":0'),
        (b"1794822740260", b"0794822740260"),
    ],
)
def test_a_mould_takes_only_what_has_its_shape(old: bytes, new: bytes) -> None:
    cut = cut_send(frame())
    assert cut is not None
    mould = fit(frame(), cut)
    assert mould.values(HEADER) == (b"1794822740260", b"FD02", b"55564")

    assert mould.values(HEADER.replace(old, new)) is None
    assert mould is fit(frame(), cut)
