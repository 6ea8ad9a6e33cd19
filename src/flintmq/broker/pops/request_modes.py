"""How groups take topics, by pull or by pop, where somebody said it."""

from __future__ import annotations

from flintmq.errors import Overloaded
from flintmq.protocol.bodies.pop import RequestMode, RequestModes

MODES_MAX = 100_000
"""Topics of groups with a mode of their own: two for each group there may be."""


class ModeTable:
    """Modes by topic and group."""

    def __init__(self, saved: RequestModes | None = None) -> None:
        self._topics: dict[str, dict[str, RequestMode]] = {
            topic: dict(groups)
            for topic, groups in (saved.message_request_mode_map if saved else {}).items()
        }
        self.is_dirty = False

    def find(self, topic: str, group: str) -> RequestMode | None:
        return self._topics.get(topic, {}).get(group)

    def put(self, mode: RequestMode) -> None:
        groups = self._topics.setdefault(mode.topic, {})
        if mode.consumer_group not in groups and sum(map(len, self._topics.values())) >= MODES_MAX:
            raise Overloaded("request modes", MODES_MAX, "MODES_MAX")
        groups[mode.consumer_group] = mode
        self.is_dirty = True

    def table(self) -> RequestModes:
        return RequestModes(
            message_request_mode_map={
                topic: dict(groups) for topic, groups in self._topics.items() if groups
            }
        )
