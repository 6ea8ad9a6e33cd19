"""Topics: a list that is searched and paged on the server, and a page for each.

A list costs two requests to a name server and those for the sizes of its fifty rows, however many
topics there are.
"""

from __future__ import annotations

from typing import Any, Final

from flintmq.console.showing.asked import Asked
from flintmq.console.showing.charts import Series, line_chart
from flintmq.console.showing.page import Values, sentence
from flintmq.console.showing.paging import RowPage
from flintmq.core.admin.topics import TopicKind, TopicName
from flintmq.errors import FlintError

KINDS: Final = {
    "normal": (TopicKind.NORMAL,),
    "retry": (TopicKind.RETRY,),
    "dead-letter": (TopicKind.DEAD_LETTER,),
    "system": (TopicKind.SYSTEM,),
    "all": tuple(TopicKind),
}

GROUPS_SHOWN: Final = 50
"""Groups of a topic whose lag is asked for; the rest is named."""


async def load_topics(asked: Asked) -> Values:
    part = asked.text("q")
    kind = asked.text("kind") if asked.text("kind") in KINDS else "normal"
    everything = await asked.cluster.topics()
    fitting = [
        each
        for each in everything
        if each.kind in KINDS[kind] and part.lower() in each.name.lower()
    ]
    page = RowPage[TopicName].of(fitting, asked.number("page", default=1, low=1))
    sizes = await asked.cluster.sizes(page.rows)
    history = asked.site.history.topics
    rows: list[dict[str, Any]] = []
    for topic, size in zip(page.rows, sizes, strict=True):
        known = history.get(topic.name)
        rows.append(
            {
                "name": topic.name,
                "kind": topic.kind,
                "size": None if isinstance(size, FlintError) else size,
                "error": sentence(size) if isinstance(size, FlintError) else "",
                "per_s": known.per_s[-1].value if known and known.per_s else None,
            }
        )
    return {"rows": rows, "page": page, "q": part, "kind": kind, "kinds": list(KINDS)}


async def load_topic(asked: Asked) -> Values:
    name = asked.text("name")
    asked.site.history.watch_topic(name)
    detail = await asked.cluster.topic_detail(name)
    queues = await asked.cluster.topic_queues(name)
    route = await asked.cluster.admin.route(name)
    lags = await asked.cluster.lags(detail.groups[:GROUPS_SHOWN])
    known = asked.site.history.topics.get(name)
    samples = known.per_s if known else ()
    return {
        "name": name,
        "detail": detail,
        "queues": queues,
        "route": route,
        "messages": sum(each.count for each in queues),
        "last_ms": max((each.last_ms for each in queues if each.last_ms), default=None),
        "per_s": samples[-1].value if samples else None,
        "groups": [
            (group, None if isinstance(lag, FlintError) else _lag_in(lag, name))
            for group, lag in zip(detail.groups, lags, strict=False)
        ],
        "more_groups": max(0, len(detail.groups) - GROUPS_SHOWN),
        "chart": line_chart("Messages a second", [Series("in", tuple(samples))]),
    }


def _lag_in(lag: Any, topic: str) -> int:
    return sum(each.lag for each in lag.queues if each.queue.topic == topic)
