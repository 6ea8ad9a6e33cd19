"""Servers for the tests of clients: the real ones, in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintmq.embedded.broker import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """One name server and one broker for all tests of a file: use topics of your own."""
    with EmbeddedBroker() as servers:
        yield servers


@pytest.fixture
def own_broker() -> Iterator[EmbeddedBroker]:
    """The same for one test alone, which may stop them or move their clock."""
    with EmbeddedBroker() as servers:
        yield servers


@pytest.fixture
def two_brokers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=2) as servers:
        yield servers
