"""The Java consumer 5.3.3 pops from our broker, and mqadmin says which groups do."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.interop.javaclient import NEW, JavaClient, MqAdmin
from support.interop.ours import Kind, serving
from support.interop.real import ask

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

PREFIX = "popped-"
TOPIC, GROUP = f"{PREFIX}t", f"{PREFIX}g"


def test_a_java_consumer_in_pop_mode_gets_everything_and_again_what_failed(tmp_path: Path) -> None:
    for name in ("served", "mqadmin", "client"):
        (tmp_path / name).mkdir()
    with (
        serving(tmp_path / "served", kind=Kind.OURS) as served,
        MqAdmin(NEW, served.namesrv, tmp_path / "mqadmin") as mqadmin,
        JavaClient(NEW, served.namesrv, tmp_path / "client") as client,
    ):
        mqadmin("updateTopic", "-b", served.broker, "-t", TOPIC, "-r", "4", "-w", "4")
        said = mqadmin(
            "setConsumeMode", "-b", served.broker, "-t", TOPIC, "-g", GROUP, "-m", "POP", "-q", "0"
        )
        assert "success" in said

        seen = client.play("pop", PREFIX)

        wanted = [f"m{n}" for n in range(40) if n % 4]
        bodies = seen.bodies("seen")
        assert sorted(bodies) == sorted([*wanted, "m3"])
        again = [each for each in seen.all("seen") if each["body"] == "m3"]
        assert [each["times"] for each in again] == [0, 1]
        _, body = ask(served.broker, 402)
        assert b'"mode":"POP"' in body
        assert GROUP in mqadmin("consumerProgress", "-g", GROUP)
        figures = ask(served.broker, 28)[1]
        assert b'"popInFlightMessages":"0"' in figures
        assert b'"popRevivedMessages":"1"' in figures
