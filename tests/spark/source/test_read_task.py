"""A worker sets its modules apart once, so that the garbage of a task is found quickly."""

from __future__ import annotations

import gc

import pytest

from flintmq.spark.source import read_task as worker


def test_what_is_loaded_is_set_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(worker, "_is_ready", False)
    monkeypatch.setattr(gc, "collect", lambda: done.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))

    for _ in range(3):
        worker.make_ready()

    assert done == ["collect", "freeze"]
