"""Whatever a client is at when its broker goes away: it goes on when the broker is back, nothing
is lost, and every call that failed said so by an error of ours.

In a quick run one outage of each kind is for the clients of all states at once; the long ones
give each state an outage of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from flintmq.core.consumer import settle_concurrent
from flintmq.embedded.broker import EmbeddedBroker
from support.client.outages import Frozen, Killed, Servers, Stopped, patiently, serving
from support.client.reconnecting import SCENES, Scene
from support.client.support import nothing_left

AWAY_S = 1.5
"""Longer than most calls of the clients here wait, if they are made in time."""

LONG_S = 35.0
"""Longer than any call waits, a pull included."""

KINDS = ("stopped", "restarted", "frozen")
LONG_KINDS = ("stopped", "killed", "frozen", "frozen for long")


@contextmanager
def servers_of(kind: str, directory: Path) -> Iterator[Servers]:
    with ExitStack() as stack:
        if kind in ("stopped", "restarted"):
            yield Stopped(stack.enter_context(EmbeddedBroker()))
        elif kind == "killed":
            yield Killed(stack.enter_context(serving(directory)), stack)
        else:
            yield Frozen(stack.enter_context(serving(directory)))


def outage(kind: str, servers: Servers, scenes: list[Scene]) -> None:
    for scene in scenes:
        scene.enter()
    servers.leave()
    before = {scene: len(scene.errors) for scene in scenes if scene.must_notice}
    try:
        for scene in scenes:
            scene.meanwhile()
        if kind != "restarted":
            Event().wait(LONG_S if kind == "frozen for long" else AWAY_S)
            for scene, count in before.items():  # on a busy machine a call may begin late
                patiently(partial(_has_noticed, scene, count))
    finally:
        servers.come_back()


def _has_noticed(scene: Scene, error_count: int) -> bool:
    return len(scene.errors) > error_count


@pytest.fixture(scope="module", autouse=True)
def soon_again() -> Iterator[None]:
    """What could not be sent back is consumed again after a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settle_concurrent, "AGAIN_MS", 300)
        yield


def failures(scenes: list[Scene], *, must_notice: bool) -> list[Exception]:
    """What does not hold, with the state it does not hold in."""
    found = []
    for scene in scenes:
        try:
            scene.check()
            assert scene.errors or not (must_notice and scene.must_notice), "nothing failed"
        except Exception as error:
            error.add_note(f"in the state {type(scene).__name__}: {scene.__doc__}")
            found.append(error)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_clients_in_every_state_go_on(kind: str, tmp_path: Path) -> None:
    with nothing_left(), servers_of(kind, tmp_path) as servers, ExitStack() as stack:
        scenes = [each(servers, kind) for each in SCENES]
        for scene in scenes:
            stack.callback(scene.close)
        outage(kind, servers, scenes)
        found = failures(scenes, must_notice=kind != "restarted")

    if found:
        raise ExceptionGroup(f"after the broker was {kind}", found)


@pytest.mark.heavy
@pytest.mark.parametrize("state", SCENES, ids=lambda scene: scene.__name__)
@pytest.mark.parametrize("kind", LONG_KINDS)
def test_a_client_goes_on_after_an_outage_of_its_own(
    kind: str, state: type[Scene], tmp_path: Path
) -> None:
    with nothing_left(), servers_of(kind, tmp_path) as servers:
        scene = state(servers, kind.replace(" ", "-"))
        try:
            outage(kind, servers, [scene])
            scene.check()
            assert scene.errors or not state.must_notice
        finally:
            scene.close()
