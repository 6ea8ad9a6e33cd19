"""The message classes and numbers are those of RocketMQ's gRPC service."""

from __future__ import annotations

from enum import IntEnum

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'flintmq[dev]'")

from google.protobuf import descriptor_pool

from flintmq.proxy.grpc_handlers import UNARY
from flintmq.proxy.wire import grpc_codes
from flintmq.proxy.wire.message_classes import PACKAGE, enum_values, service_methods

OTHER_NAMES = {
    "QueuePermission": "Permission",
    "BodyEncoding": "Encoding",
    "Resolution": "TransactionResolution",
}


def test_numbers_are_those_of_the_descriptor_set() -> None:
    ours = {
        name: kind
        for name, kind in vars(grpc_codes).items()
        if isinstance(kind, type) and issubclass(kind, IntEnum) and kind is not IntEnum
    }

    assert len(ours) == 9
    for name, kind in ours.items():
        there = enum_values(OTHER_NAMES.get(name, name))
        assert {each.name: each.value for each in kind}.items() <= there.items(), name


def test_the_calls_that_are_served_are_calls_of_the_service() -> None:
    left_out = {"PullMessage", "UpdateOffset", "GetOffset", "QueryOffset", "SyncLiteSubscription"}

    assert set(service_methods()) == {*UNARY, "ReceiveMessage", "Telemetry", *left_out}


def test_the_pool_of_the_process_is_left_to_the_official_client() -> None:
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName(f"{PACKAGE}.Message")
