"""`flintmq group lag`: how far a group is behind, once or for as long as one looks on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.options import GroupName, OfTopic, require_group
from flintmq.cli.shared.output import (
    Output,
    OutputOption,
    make_table,
    print_json,
    print_json_line,
    print_line,
    timestamp,
)
from flintmq.client.engine.client_config import ClientSettings
from flintmq.net.clock import monotonic_ms
from flintmq.printable import printable

if TYPE_CHECKING:
    from flintmq.client.admin import Admin
    from flintmq.core.admin.lag import GroupLag, LagTrend
    from flintmq.model.queue import QueueRef

WATCH_S = 2.0
"""How often to look, unless told otherwise: brokers count once, members commit every 5 s."""


@connected
def lag(
    settings: ClientSettings,
    group: GroupName,
    topic: OfTopic = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Look again and again; show rates and the end.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.05, help="Seconds between two looks.")
    ] = WATCH_S,
    count: Annotated[
        int | None,
        typer.Option("--count", "-c", min=1, help="End after so many looks.", show_default=False),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how far a group is behind, in all its topics or in one.

    With --watch also how fast it consumes, how fast messages come, and when it is done. With
    --output json each look is one line then.
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        if watch:
            with suppress(KeyboardInterrupt):
                _watch(_look_on(admin, group, topic, interval, count), output)
            return
        found = _look(admin, group, topic)
    if output is Output.JSON:
        print_json(lag_facts(found))
    elif not found.queues:
        print_line(f"{group} has committed no offset yet")
    else:
        print_line(_plain_table(found))
        print_line(f"{group} is {found.lag} messages behind, {found.consumed_per_second:.1f}/s")


def lag_facts(found: GroupLag) -> dict[str, object]:
    """What scripts read: the sum, and every queue."""
    return {
        "group": found.group,
        "lag": found.lag,
        "queues": [
            {
                "topic": each.queue.topic,
                "broker": each.queue.broker,
                "queue_id": each.queue.queue_id,
                "max_offset": each.max_offset,
                "consumer_offset": each.consumer_offset,
                "lag": each.lag,
            }
            for each in found.queues
        ],
    }


def _look(admin: Admin, group: str, topic: str | None) -> GroupLag:
    found = admin.lag(group, topic=topic)
    if not found.queues:
        require_group(admin, group)
    return found


Show = Callable[["GroupLag", "LagTrend", Mapping["QueueRef", "LagTrend"]], None]


def _watch(looks: Iterator[GroupLag], output: Output) -> None:
    """Show one look after the other: in place on a terminal, else a line for each."""
    console = Console(highlight=False)
    if output is Output.JSON:
        _show_all(looks, lambda found, trend, _: print_json_line(_trend_facts(found, trend)))
    elif not console.is_terminal:
        _show_all(looks, lambda found, trend, _: print_line(_sentence(found, trend)))
    else:
        with Live(console=console, auto_refresh=False) as live:
            _show_all(
                looks,
                lambda found, trend, by_queue: live.update(
                    Group(_trend_table(found, by_queue), Text(_sentence(found, trend))),
                    refresh=True,
                ),
            )


def _show_all(looks: Iterator[GroupLag], show: Show) -> None:
    from flintmq.core.admin.lag import lag_trend

    before: GroupLag | None = None
    before_ms = 0
    for found in looks:
        now_ms = monotonic_ms()
        show(found, *lag_trend(before, found, now_ms - before_ms))
        before, before_ms = found, now_ms


def _look_on(
    admin: Admin, group: str, topic: str | None, interval: float, count: int | None
) -> Iterator[GroupLag]:
    yield _look(admin, group, topic)
    for _ in repeat(None) if count is None else range(count - 1):
        time.sleep(interval)
        yield _look(admin, group, topic)


def _trend_facts(found: GroupLag, trend: LagTrend) -> dict[str, object]:
    return {
        **lag_facts(found),
        "consumed_per_s": trend.consumed_per_s,
        "stored_per_s": trend.stored_per_s,
        "drain_s": trend.drain_s,
    }


def _sentence(found: GroupLag, trend: LagTrend) -> str:
    return printable(
        f"{found.group} is {found.lag} messages behind, consumes {_rate(trend.consumed_per_s)}, "
        f"gets {_rate(trend.stored_per_s)}, {_drain(trend)}"
    )


def _rate(per_s: float | None) -> str:
    return "-" if per_s is None else f"{per_s:.1f}/s"


def _drain(trend: LagTrend) -> str:
    """When it is done, if it goes on like this."""
    if trend.drain_s == 0:
        return "is up to date"
    if trend.drain_s is None:
        return "has just been looked at" if trend.consumed_per_s is None else "does not catch up"
    return f"is done in {duration(trend.drain_s)}"


def duration(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _trend_table(found: GroupLag, by_queue: Mapping[QueueRef, LagTrend]) -> Table:
    return make_table(
        ("topic", "broker", "queue", "end", "group", "lag", "consumes", "gets", "outlook"),
        (
            (
                each.queue.topic,
                each.queue.broker,
                each.queue.queue_id,
                each.max_offset,
                each.consumer_offset,
                each.lag,
                _rate(by_queue[each.queue].consumed_per_s),
                _rate(by_queue[each.queue].stored_per_s),
                _drain(by_queue[each.queue]),
            )
            for each in found.queues
        ),
    )


def _plain_table(found: GroupLag) -> Table:
    return make_table(
        ("topic", "broker", "queue", "end", "group", "lag", "last consumed"),
        (
            (
                each.queue.topic,
                each.queue.broker,
                each.queue.queue_id,
                each.max_offset,
                each.consumer_offset,
                each.lag,
                timestamp(each.last_consumed_ms),
            )
            for each in found.queues
        ),
    )
