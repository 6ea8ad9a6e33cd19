"""The samples behind a chart, as a table: for those who do not see it, and for copying."""

from __future__ import annotations

from collections.abc import Iterable

from flintmq.console.showing.asked import Asked
from flintmq.console.showing.page import Values
from flintmq.console.showing.templates import link
from flintmq.console.watching.history import Sample


async def load_history(asked: Asked) -> Values:
    """Newest first: rates of the cluster, of a topic, or the lag of a group."""
    await asked.cluster.names()  # a cluster that is away is told here too
    history = asked.site.history
    topic, group = asked.text("topic"), asked.text("group")
    if topic:
        known = history.topics.get(topic)
        samples = _rows(known.per_s if known else ())
        title, columns, back = topic, ["Messages a second"], link("/topic", name=topic)
    elif group:
        found = history.groups.get(group)
        samples = _rows(found.behind if found else ())
        title, columns, back = group, ["Lag, in messages"], link("/group", name=group)
    else:
        delivered = {each.at_ms: each.value for each in history.delivered}
        samples = [
            (each.at_ms, [each.value, delivered.get(each.at_ms, 0)])
            for each in reversed(history.sent)
        ]
        title, columns, back = "The cluster", ["Sent a second", "Delivered a second"], "/"
    return {"title": title, "columns": columns, "back": back, "samples": samples}


def _rows(samples: Iterable[Sample]) -> list[tuple[int, list[float]]]:
    return [(each.at_ms, [each.value]) for each in reversed(tuple(samples))]
