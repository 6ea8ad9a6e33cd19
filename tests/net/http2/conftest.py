"""Whatever clients do, it is no fault of ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_fault(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing is logged as an error."""
    yield
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
