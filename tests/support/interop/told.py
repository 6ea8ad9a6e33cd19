"""What several scenarios of one client told at once."""

from __future__ import annotations

from typing import Any

import pytest

Event = dict[str, Any]


class Told:
    """Lines of JSON, each with the scenario it belongs to; those of nobody concern all."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events

    def of(self, scenario: str, event: str) -> list[Event]:
        """Fails with the reason if the scenario did."""
        mine = [one for one in self.events if one["scenario"] in (scenario, "")]
        failures = [one["failure"] for one in mine if "failure" in one]
        if failures:
            pytest.fail("\n".join(failures))
        return [one for one in mine if one["event"] == event]

    def bodies(self, scenario: str, event: str) -> list[str]:
        return [one["body"] for one in self.of(scenario, event)]
