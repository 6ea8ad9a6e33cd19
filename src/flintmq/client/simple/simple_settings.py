"""What a simple consumer may be told beyond what every client is."""

from __future__ import annotations

from dataclasses import dataclass

from flintmq.client.engine.client_config import ClientSettings
from flintmq.client.engine.setting_names import StartFrom
from flintmq.core.bad_record_rule import OnBadRecord, check_rule
from flintmq.core.pop.pop_settings import check_pop_start, pop_start_mode
from flintmq.errors import InvalidSetting
from flintmq.model.group import ConsumeFromWhere
from flintmq.model.start_point import StartPoint


class SimpleConsumerSettings(ClientSettings, total=False):
    """Keyword arguments of a simple consumer: fields of `SimpleConfig` and `ClientConfig`."""

    start_from: StartFrom
    on_bad_record: OnBadRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleConfig:
    """Settings of one simple consumer."""

    start_from: ConsumeFromWhere | StartPoint = ConsumeFromWhere.LAST_OFFSET
    """Where a group without an offset starts: ``first`` or ``last``."""
    on_bad_record: OnBadRecord = "dead_letter"
    """What becomes of a record that cannot be decoded: dead_letter or skip."""

    def __post_init__(self) -> None:
        check_pop_start(self.start_from)
        check_rule(self.on_bad_record)
        if self.on_bad_record == "stop":
            reason = "no queue is this consumer's own to stop: use dead_letter or skip"
            raise InvalidSetting("on_bad_record", "stop", reason)

    @property
    def start_mode(self) -> int:
        return pop_start_mode(self.start_from)
