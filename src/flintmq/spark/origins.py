"""Where a source reads: a cluster, or a store directory.  Everybody else does not care which."""

from __future__ import annotations

from flintmq.spark.options import SourceOptions
from flintmq.spark.queues import PartsReader, Queues
from flintmq.spark.task import RemotePages


def open_queues(options: SourceOptions) -> Queues:
    """For the driver.  Close it when it is no longer needed."""
    if options.store is None:
        from flintmq.spark.cluster import Cluster  # tasks do without

        return Cluster(options.access)
    from flintmq.spark.store_queues import StoreQueues

    return StoreQueues(options.store)


def page_reader(options: SourceOptions) -> PartsReader:
    """For a task."""
    if options.store is None:
        return RemotePages(options.access)
    from flintmq.spark.store_queues import StorePages

    return StorePages()
