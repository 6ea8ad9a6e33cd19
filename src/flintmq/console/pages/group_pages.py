"""Groups: a list, and for each group its members, its lag by queue and why it is behind.

A diagnosis asks every member once, through a broker; what a member does not tell is said so.
"""

from __future__ import annotations

from typing import Any

from flintmq.console.showing.asked import Asked
from flintmq.console.showing.charts import Series, line_chart
from flintmq.console.showing.page import Values, sentence
from flintmq.console.showing.paging import RowPage
from flintmq.core.admin.group_diagnosis import GroupDiagnosis, describe_lag
from flintmq.core.admin.groups import GroupSummary
from flintmq.errors import FlintError, NoRoute


async def load_groups(asked: Asked) -> Values:
    part = asked.text("q")
    with_system = asked.is_on("all")
    fitting = [
        each
        for each in await asked.cluster.groups()
        if (with_system or not each.is_system) and part.lower() in each.name.lower()
    ]
    page = RowPage[GroupSummary].of(fitting, asked.number("page", default=1, low=1))
    lags = await asked.cluster.lags([each.name for each in page.rows])
    history = asked.site.history.groups
    rows: list[dict[str, Any]] = []
    for group, lag in zip(page.rows, lags, strict=True):
        known = history.get(group.name)
        rows.append(
            {
                "group": group,
                "lag": None if isinstance(lag, FlintError) else lag,
                "error": sentence(lag) if isinstance(lag, FlintError) else "",
                "trend": known.trend if known else None,
            }
        )
    return {"rows": rows, "page": page, "q": part, "with_system": with_system}


async def load_group(asked: Asked) -> Values:
    name = asked.text("name")
    asked.site.history.watch_group(name)
    found = await asked.cluster.diagnosis(name)
    if not found.is_known and found.online is None and not found.queues:
        raise NoRoute(name, "no broker knows such a group")
    known = asked.site.history.groups.get(name)
    samples = tuple(known.behind) if known else ()
    return {
        "name": name,
        "found": found,
        "lag": sum(each.progress.lag for each in found.queues),
        "in_words": describe_lag(found),
        "trend": known.trend if known else None,
        "topics": sorted({each.progress.queue.topic for each in found.queues}),
        "members": _members(found),
        "chart": line_chart("Lag, in messages", [Series("lag", samples)]),
    }


def _members(found: GroupDiagnosis) -> list[dict[str, Any]]:
    return [
        {
            "member": told.member,
            "queues": None if told.running is None else len(told.running.mq_table),
            "is_ordered": told.is_ordered,
            "silence": told.silence,
        }
        for told in found.members
    ]


async def load_member(asked: Asked) -> Values:
    """What one member tells of itself; its stacks only on request."""
    group, client = asked.text("group"), asked.text("client")
    with_stacks = asked.is_on("stacks")
    detail = await asked.cluster.admin.describe_consumer(group, client, with_stacks=with_stacks)
    return {
        "group": group,
        "client": client,
        "running": detail.running,
        "settings": sorted(detail.settings.items()),
        "queues": sorted(detail.running.mq_table.items()),
        "rates": sorted(detail.running.status_table.items()),
        "stacks": detail.stacks,
        "with_stacks": with_stacks,
    }
