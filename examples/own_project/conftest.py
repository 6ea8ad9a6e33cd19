"""What the tests share: two brokers instead of one, and the app running on them."""

from collections.abc import Iterator
from typing import Any

import billing
import pytest

from flintmq import EmbeddedBroker


@pytest.fixture(scope="session")
def flintmq_settings() -> dict[str, Any]:
    return {"brokers": 2}


@pytest.fixture
def shop(flintmq_broker: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    billing.billed.clear()
    with flintmq_broker.running(billing.app):
        yield flintmq_broker
