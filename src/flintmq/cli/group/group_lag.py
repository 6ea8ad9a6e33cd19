"""`flintmq group lag`: how far a group is behind, once or again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from flintmq.cli.group.every_lag import print_every_lag
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.completion import complete_group
from flintmq.cli.shared.options import OfTopic, require_group
from flintmq.cli.shared.output import (
    Output,
    OutputOption,
    print_json,
    print_json_line,
    print_line,
    when,
)
from flintmq.cli.shared.tables import MISSING, make_table, print_table
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import InvalidSetting
from flintmq.net.clock import monotonic_ms
from flintmq.printable import printable
from flintmq.reports.amounts import duration

if TYPE_CHECKING:
    from flintmq.client.admin import Admin
    from flintmq.core.admin.lag import GroupLag
    from flintmq.core.admin.lag_rates import LagTrend
    from flintmq.model.queue import QueueRef

WATCH_S = 2.0
"""How often to look; members commit every 5 s."""


@connected
def lag(
    settings: ClientSettings,
    group: Annotated[
        str | None,
        typer.Argument(
            metavar="GROUP",
            help="Its name; without it, all groups.",
            show_default=False,
            autocompletion=complete_group,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="All groups.")] = False,
    topic: OfTopic = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh; show rates and ETA.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.05, help="Seconds between two refreshes.")
    ] = WATCH_S,
    count: Annotated[
        int | None,
        typer.Option("--count", "-c", min=1, help="Stop after N refreshes.", show_default=False),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how far a group is behind, in all its topics or in one; or how far all groups are.

    stored at is when the last consumed message was stored; in flight is what members have and did
    not commit or, popped, did not acknowledge. With --watch also messages a second
    out and in, and the ETA. Rates are means between commits of the group, which come every few
    seconds: they are shown once two commits were seen. With --json each refresh is one line then.

    Examples:
        flintmq group lag
        flintmq group lag billing
        flintmq group lag billing --watch --json
    """
    from flintmq.client.admin import Admin

    if group is not None and every:
        raise InvalidSetting("group", group, "give a group or --all")
    if group is None and (watch or topic is not None):
        raise InvalidSetting("group", "", "--watch and --topic are for one group: name it")
    with Admin(**settings) as admin:
        if group is None:
            print_every_lag(admin.every_lag(), output, lag_facts)
            return
        if watch:
            with suppress(KeyboardInterrupt):
                _watch(_read_lags(admin, group, topic, interval, count), output)
            return
        found = _read_lag(admin, group, topic)
    if output is Output.JSON:
        print_json(lag_facts(found))
    elif not found.queues:
        print_line(f"{group} has committed no offset yet")
    else:
        print_table(_PLAIN_HEAD, _plain_rows(found))
        print_line(f"{_behind(found)}; brokers hand out {found.consumed_per_second:.1f} a second")


def lag_facts(found: GroupLag) -> dict[str, object]:
    """The lag of a group for JSON: the sum, and every queue."""
    return {
        "group": found.group,
        "lag": found.lag,
        "retries": found.retries,
        "in_flight": found.in_flight,
        "queues": [
            {
                "topic": each.queue.topic,
                "broker": each.queue.broker,
                "queue_id": each.queue.queue_id,
                "max_offset": each.max_offset,
                "consumer_offset": each.consumer_offset,
                "lag": each.lag,
                "in_flight": each.in_flight,
            }
            for each in found.queues
        ],
    }


def _read_lag(admin: Admin, group: str, topic: str | None) -> GroupLag:
    found = admin.lag(group, topic=topic)
    if not found.queues:
        require_group(admin, group)
    return found


Show = Callable[["GroupLag", "LagTrend", Mapping["QueueRef", "LagTrend"]], None]


def _watch(readings: Iterator[GroupLag], output: Output) -> None:
    """Show one reading after the other: in place on a terminal, else a line for each."""
    console = Console(highlight=False)
    if output is Output.JSON:
        _show_all(readings, lambda found, trend, _: print_json_line(_trend_facts(found, trend)))
    elif not console.is_terminal:
        _show_all(readings, lambda found, trend, _: print_line(_sentence(found, trend)))
    else:
        with Live(console=console, auto_refresh=False) as live:
            _show_all(
                readings,
                lambda found, trend, by_queue: live.update(
                    Group(
                        make_table(_TREND_HEAD, _trend_rows(found, by_queue), console.width),
                        Text(_sentence(found, trend)),
                    ),
                    refresh=True,
                ),
            )


def _show_all(readings: Iterator[GroupLag], show: Show) -> None:
    from flintmq.core.admin.lag_rates import LagWatch

    watch = LagWatch()
    for found in readings:
        show(found, *watch.add(found, monotonic_ms()))


def _read_lags(
    admin: Admin, group: str, topic: str | None, interval: float, count: int | None
) -> Iterator[GroupLag]:
    yield _read_lag(admin, group, topic)
    for _ in repeat(None) if count is None else range(count - 1):
        time.sleep(interval)
        yield _read_lag(admin, group, topic)


def _trend_facts(found: GroupLag, trend: LagTrend) -> dict[str, object]:
    return {
        **lag_facts(found),
        "consumed_per_s": trend.consumed_per_s,
        "stored_per_s": trend.stored_per_s,
        "drain_s": trend.drain_s,
    }


def _sentence(found: GroupLag, trend: LagTrend) -> str:
    rates = f"out {_rate(trend.consumed_per_s)}, in {_rate(trend.stored_per_s)}"
    return printable(f"{_behind(found)}; {rates}, ETA {_eta(trend)}")


def _behind(found: GroupLag) -> str:
    more = f", {found.in_flight} in flight" if found.in_flight else ""
    retries = f", {found.retries} of them retries" if found.retries else ""
    return f"{found.group} is {found.lag} messages behind{retries}{more}"


def _rate(per_s: float | None) -> str:
    return MISSING if per_s is None else f"{per_s:.1f}/s"


def _eta(trend: LagTrend) -> str:
    """The time left until the lag is 0, at the present rates."""
    if trend.drain_s is not None:
        return duration(trend.drain_s)
    is_known = trend.consumed_per_s is not None and trend.stored_per_s is not None
    return "never at this rate" if is_known else MISSING


Rows = list[tuple[object, ...]]

_TREND_HEAD = ("topic", "broker", "queue", "end", "committed", "lag", "out/s", "in/s", "ETA")


def _trend_rows(found: GroupLag, by_queue: Mapping[QueueRef, LagTrend]) -> Rows:
    return [
        (
            each.queue.topic,
            each.queue.broker,
            each.queue.queue_id,
            each.max_offset,
            each.consumer_offset,
            each.lag,
            by_queue[each.queue].consumed_per_s,
            by_queue[each.queue].stored_per_s,
            _eta(by_queue[each.queue]),
        )
        for each in found.queues
    ]


_PLAIN_HEAD = ("topic", "broker", "queue", "end", "committed", "lag", "in flight", "stored at")


def _plain_rows(found: GroupLag) -> Rows:
    return [
        (
            each.queue.topic,
            each.queue.broker,
            each.queue.queue_id,
            each.max_offset,
            each.consumer_offset,
            each.lag,
            each.in_flight,
            when(each.last_consumed_ms),
        )
        for each in found.queues
    ]
