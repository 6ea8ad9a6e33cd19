"""A server that is ready looks at what it loaded once, and its collector then leaves it alone."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from flintmq.cli.shared.server_process import stopping_or_failed
from flintmq.net.collector import YOUNG_OBJECTS, still_collector


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_is_loaded_when_a_server_is_ready_is_never_looked_at_again() -> None:
    still_collector()

    async def serve() -> None:
        stopping = asyncio.Event()
        stopping.set()
        await stopping_or_failed(stopping)

    asyncio.run(serve())

    assert gc.get_freeze_count() > 10_000
    assert gc.get_threshold()[0] == YOUNG_OBJECTS
