"""When a delayed message will be delivered, and whether its level exists.

A level above the last is silently the last one in RocketMQ, two hours by default; a command line
that asks for one is refused here.  Which levels there are is a setting of the broker
(messageDelayLevel).  Where an account may not read settings, RocketMQ's default table stands in,
and the command says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.cli.shared.output import say
from flintmq.errors import BrokerRefused, InvalidSetting
from flintmq.model.delay_levels import DELAY_LEVELS
from flintmq.store.files.store_config import parse_delay_levels

if TYPE_CHECKING:
    from flintmq.client.engine.client_config import ClientSettings

SETTING = "messageDelayLevel"


def level_delay_ms(settings: ClientSettings, level: int) -> int:
    """How long the brokers of a cluster hold back messages of a level; the longest of them."""
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        try:
            tables = {
                admin.broker_settings(broker).get(SETTING, DELAY_LEVELS)
                for broker in admin.cluster().masters()
            }
        except BrokerRefused:
            say(f"brokers do not tell their {SETTING}: times are by RocketMQ's default")
            tables = {DELAY_LEVELS}
    levels = [parse_delay_levels(table) for table in tables or {DELAY_LEVELS}]
    last = min(map(len, levels))
    if level > last:
        shown = ", ".join(f"{at} is {text}" for at, text in enumerate(DELAY_LEVELS.split(), 1))
        reason = f"levels go from 1 to {last}"
        if tables == {DELAY_LEVELS}:
            reason += f": {shown}"
        raise InvalidSetting("delay-level", str(level), reason)
    return max(table[level - 1] for table in levels)
