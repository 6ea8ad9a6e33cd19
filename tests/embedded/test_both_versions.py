"""What peers of either version need of a running server, and what none of them gets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.net.address import Address
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.frame import Frame, FrameReader, HeaderForm
from flintmq.protocol.wire import decode_command, encode_command
from support.embedded.asking import ask

LEFT_OUT = (
    *(50, 51, 52, 53, 54, 513, 906, 908),
    *(2001, 2002, 2003, 2004, 3001, 3005, 3010),
    *(200056,),
)
"""Codes of RocketMQ that docs/compatibility.md says are refused."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.mark.parametrize("code", LEFT_OUT)
def test_what_is_left_out_is_refused_with_code_3(broker: EmbeddedBroker, code: int) -> None:
    reply = ask(broker.broker, code)

    assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert reply.remark == f" request type {code} not supported"


@pytest.mark.parametrize("server", ["namesrv", "broker"])
def test_a_binary_request_is_answered_in_json(broker: EmbeddedBroker, server: str) -> None:
    code = RequestCode.GET_BROKER_CLUSTER_INFO
    if server == "broker":
        code = RequestCode.GET_BROKER_RUNTIME_INFO
    frame = encode_command(request(code, opaque=7), HeaderForm.BINARY)
    where = Address.parse(getattr(broker, server))

    with socket.create_connection((where.host, where.port), timeout=10) as connection:
        connection.sendall(frame)
        reader = FrameReader()
        frames: list[Frame] = []
        while not frames:
            frames = reader.feed(connection.recv(65_536))

    form = frames[0][0]
    reply = decode_command(frames[0])
    assert form == HeaderForm.JSON
    assert (reply.opaque, reply.code) == (7, ResponseCode.SUCCESS)
