"""One embedded broker with a proxy for all tests of a file; names of topics are their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from flintmq.embedded.broker import EmbeddedBroker

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'flintmq[dev]'")

from support.proxy.grpc_client import GrpcClient

_names = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(grpc=True) as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[GrpcClient]:
    with GrpcClient(broker.grpc, f"client-{next(_names)}") as client:
        yield client


@pytest.fixture
def topic(broker: EmbeddedBroker) -> Callable[..., str]:
    """Makes a topic of a type and gives its name."""

    def make(kind: str = "NORMAL", queues: int = 1) -> str:
        name = f"{kind.lower()}-{next(_names)}"
        with broker.admin() as admin:
            admin.create_topic(name, queues=queues, attributes={"message.type": kind})
        return name

    return make


@pytest.fixture
def group(broker: EmbeddedBroker) -> Callable[..., str]:
    """Makes a consumer group and gives its name."""

    def make(*, retry_max: int = 16, is_ordered: bool = False) -> str:
        name = f"group-{next(_names)}"
        with broker.admin() as admin:
            admin.create_group(name, retry_max=retry_max, is_ordered=is_ordered)
        return name

    return make
