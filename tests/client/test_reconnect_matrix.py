"""Whatever a client is at when its broker goes away: it goes on when the broker is back, nothing
is lost, and every call that failed said so by an error of ours.

In a quick run one outage of each kind is for the clients of all states at once; the long ones
give each state an outage of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

import pytest

from client.outages import Frozen, Killed, Servers, Stopped, serving
from client.reconnecting import SCENES, Scene
from client.support import nothing_left
from flintmq.core import settle_concurrent
from flintmq.embedded.broker import EmbeddedBroker

AWAY_S = 1.5
"""Longer than most calls of the clients here wait."""

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
    try:
        for scene in scenes:
            scene.meanwhile()
        away_s = {"restarted": 0.0, "frozen for long": LONG_S}.get(kind, AWAY_S)
        Event().wait(away_s)
    finally:
        servers.come_back()


@pytest.fixture(scope="module", autouse=True)
def soon_again() -> Iterator[None]:
    """What could not be sent back is consumed again after a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settle_concurrent, "AGAIN_MS", 300)
        yield


@pytest.fixture(scope="module")
def scenes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[type[Scene], Scene]]:
    """The clients of all states after one outage."""
    kind: str = request.param
    with nothing_left(), servers_of(kind, tmp_path_factory.mktemp("served")) as servers:
        made = {each: each(servers, kind) for each in SCENES}
        try:
            outage(kind, servers, list(made.values()))
            yield made
        finally:
            for scene in made.values():
                scene.close()


@pytest.mark.parametrize("state", SCENES, ids=lambda scene: scene.__name__)
@pytest.mark.parametrize(
    "scenes",
    [pytest.param(kind, marks=pytest.mark.xdist_group(f"outage {kind}")) for kind in KINDS],
    indirect=True,
)
def test_a_client_goes_on(scenes: dict[type[Scene], Scene], state: type[Scene]) -> None:
    scene = scenes[state]
    scene.check()
    assert scene.errors or not state.must_notice or "restarted" in scene.topic


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
