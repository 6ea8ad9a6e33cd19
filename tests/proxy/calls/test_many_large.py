"""Many large messages at once reach every client, and none costs another one its connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Thread
from typing import Any

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.proxy.wire.grpc_codes import Code
from support.proxy.grpc_client import GrpcClient, receive_request

MB = 1024 * 1024
CLIENTS, GROUPS = 4, 24
"""As many receives as bring 96 MB, half as much again as one connection may leave unread."""


@pytest.fixture
def clients(broker: EmbeddedBroker) -> Iterator[list[GrpcClient]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(GrpcClient(broker.grpc, f"large-{each}")) for each in range(CLIENTS)
        ]


def asked(clients: list[GrpcClient], topic: str) -> list[Iterator[Any]]:
    """Receives of one group each, all under way."""
    return [
        client.stream(receive_request(topic, f"large-{topic}-{number}-{each}", count=1))
        for number, client in enumerate(clients)
        for each in range(GROUPS)
    ]


def sizes(receives: list[Iterator[Any]]) -> list[int]:
    """What each of them brought; all are read at the same time."""
    found = [0] * len(receives)

    def read(place: int) -> None:
        first, *rest = receives[place]
        assert first.status.code == Code.OK, first
        found[place] = sum(len(each.message.body) for each in rest)

    threads = [Thread(target=read, args=(place,)) for place in range(len(receives))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_receives_that_find_large_messages_at_once_all_get_them(
    clients: list[GrpcClient], topic: Callable[..., str]
) -> None:
    name = topic()
    clients[0].send(name, bytes(MB))
    assert sizes(asked(clients, name)) == [MB] * (CLIENTS * GROUPS)


def test_receives_that_wait_for_one_large_message_all_get_it(
    clients: list[GrpcClient], topic: Callable[..., str]
) -> None:
    name = topic()
    receives = asked(clients, name)
    clients[0].send(name, bytes(MB))
    assert sizes(receives) == [MB] * (CLIENTS * GROUPS)


def test_a_small_receive_gets_its_message_beside_large_ones(
    clients: list[GrpcClient], client: GrpcClient, topic: Callable[..., str]
) -> None:
    large, small = topic(), topic()
    client.send(large, bytes(MB))
    client.send(small)
    receives = asked(clients, large)
    status, found = client.receive(small, f"small-{small}")
    assert (status.code, [each.body for each in found]) == (Code.OK, [b"body"])
    assert sizes(receives) == [MB] * (CLIENTS * GROUPS)
