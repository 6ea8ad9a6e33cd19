"""Tests that are skipped, with the reason, where a tool is missing."""

from __future__ import annotations

import pytest

from support.interop.jvm import missing_tools


def skip_without(*tools: str) -> None:
    reason = missing_tools(*tools)
    if reason is not None:
        pytest.skip(reason)
