"""Tests that start Spark share one xdist worker with those of tests/spark."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "xdist_group: tests for one and the same xdist worker")
