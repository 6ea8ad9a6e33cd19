"""A real broker for every test that asks for one.

    def test_orders_are_billed(flintmq_broker):
        with flintmq_broker.producer("shop") as producer:
            ...
            flintmq_broker.advance(10)  # ten seconds later

pytest finds it by itself where FlintMQ is installed.  What the fixtures give is an
`EmbeddedBroker` on free ports and in a temporary directory, which all go with it.  Loading this
module loads no broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from flintmq.embedded.broker import EmbeddedBroker


@pytest.fixture(scope="session")
def flintmq_settings() -> dict[str, Any]:
    """Arguments of `EmbeddedBroker` for both fixtures; override it, as with {"brokers": 2}."""
    return {}


@pytest.fixture
def flintmq_broker(flintmq_settings: dict[str, Any]) -> Iterator[EmbeddedBroker]:
    """A broker of the test's own: it starts empty, and its clock may be moved."""
    from flintmq.embedded.broker import EmbeddedBroker

    with EmbeddedBroker(**flintmq_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def flintmq_session_broker(flintmq_settings: dict[str, Any]) -> Iterator[EmbeddedBroker]:
    """One broker for all tests that ask for it; give topics and groups names of their own."""
    from flintmq.embedded.broker import EmbeddedBroker

    with EmbeddedBroker(**flintmq_settings) as broker:
        yield broker
