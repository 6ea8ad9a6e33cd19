"""`flintmq.spark.for_each_batch`: a loop of planned batches, with every pyspark from 3.5 on.

    plan the next range ──► write it to the checkpoint ──► function(frame, number)
            ▲                                                     │ returns
            └──── commit it for the group ◄── write that it is finished

Offsets, limits, data loss and the group's offset are those of a stream (`StreamDriver`).  The loop
runs in the program itself: it needs no streaming query, and the machine of the program has to
reach the brokers.

At least once: when the function raises, or the program dies, the next start runs the same batch
again, with the same number and the same rows.  A function that is idempotent by the number of the
batch gets each message once.

Invariant: no batch begins before the one before it is finished and noted.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from flintmq.core.group.consumer_settings import check_range
from flintmq.spark.frames.batch_log import BatchLog, open_log
from flintmq.spark.frames.frame_read import frame_of
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.source.preflight import as_texts
from flintmq.spark.source.read_task import driver_cores, partitions_of
from flintmq.spark.source.stream_driver import StreamDriver
from flintmq.spark.source.stream_offset import StreamOffset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INTERVAL_S_MAX: Final = 86_400
"""A day; who reads less often starts a program then."""

CORES: Final = "cores"
"""Where an offset has the number of cores that its tasks were made for, as in a stream."""


def for_each_batch(
    spark: SparkSession,
    topics: str | Sequence[str],
    function: Callable[[DataFrame, int], object],
    checkpoint: str | os.PathLike[str],
    *,
    available_now: bool = False,
    interval_s: float = 0.0,
    stopping: threading.Event | None = None,
    **options: object,
) -> int:
    """Call ``function`` with the frame and the number of each batch; returns how many there were.

    ``options`` are those of ``spark.readStream``.  With ``available_now`` it returns when all
    messages that are stored now were read, else when ``stopping`` is set, after the batch that
    runs then.  A batch begins at least ``interval_s`` after the one before it.
    """
    check_range("interval_s", round(interval_s), (0, INTERVAL_S_MAX))
    parsed = SourceOptions.parse(as_texts(options, topics or ()), stream=True)
    stopping = stopping or threading.Event()
    done = 0
    with open_log(checkpoint) as log, closing(StreamDriver(parsed)) as driver:
        for number, tree in _batches(driver, log, available_now, interval_s, stopping):
            end = StreamOffset.from_json(tree)
            parts = partitions_of(parsed, driver.parts(end), tree.get(CORES) or driver_cores())
            function(frame_of(spark, parsed, parts), number)
            log.finish(number)
            driver.finished(end)
            done += 1
    return done


def _batches(
    driver: StreamDriver,
    log: BatchLog,
    available_now: bool,
    interval_s: float,
    stopping: threading.Event,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The batches to run, each planned and noted when the one before it is finished."""
    last = log.last()
    if last is None:
        number, reached = -1, driver.initial()
    else:
        number, reached = last.number, StreamOffset.from_json(last.offset)
    if available_now:
        driver.freeze()
    if last is not None and not last.is_finished:
        yield number, last.offset
    began_s = -interval_s
    while not stopping.is_set():
        left_s = began_s + interval_s - time.monotonic()
        if left_s > 0 and not available_now:
            stopping.wait(left_s)
            continue
        end = driver.latest(reached)
        if end == reached:
            if available_now:
                return
            continue  # an idle driver waits for messages itself
        began_s = time.monotonic()
        number, reached = number + 1, end
        tree = {**end.to_json(), CORES: driver_cores()}
        log.plan(number, tree)
        yield number, tree
