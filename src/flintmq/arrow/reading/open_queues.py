"""Opens what a source reads: a cluster, or a store directory.  No other module chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.arrow.reading.access import Access
from flintmq.arrow.reading.cluster_pages import RemotePages
from flintmq.arrow.reading.queue_source import PartsReader, QueueSource

if TYPE_CHECKING:
    from flintmq.arrow.reading.route_cache import RouteCache


def open_queues(access: Access, store: str | None, routes: RouteCache | None = None) -> QueueSource:
    """The queues of a source, for the driver.  The caller closes it.  ``routes`` may be shared."""
    if store is None:
        from flintmq.arrow.reading.cluster_queues import ClusterQueues  # tasks do without

        return ClusterQueues(access, routes)
    from flintmq.arrow.reading.store_queues import StoreQueues

    return StoreQueues(store)


def page_reader(access: Access, store: str | None) -> PartsReader:
    """The reader of parts, for a task."""
    if store is None:
        return RemotePages(access)
    from flintmq.arrow.reading.store_queues import StorePages

    return StorePages()
