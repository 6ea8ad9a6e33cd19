"""Rows that could not be decoded, set apart in every micro-batch: `quarantine`.

    micro-batch of `decode` ─┬─ decode_error is null ─► your function
                             └─ the others ─► DIR/batch=N/*.parquet, or messages of a topic

A directory has each row once: a micro-batch that runs again writes its part again.  A topic has
it at least once, under a name that stays the same (`drop_repeats`); the message is the original
body, with why and where it was in its properties.  A row without a body is in directories alone.

A micro-batch is kept in memory and on disk while both parts are written, so that it is read once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.model.topic import check_sendable_topic
from flintmq.spark.bodies.decode_frame import BODY, DECODE_ERROR, VALUE
from flintmq.spark.options.sink_options import (
    BAD_ROWS,
    RUN_ID,
    TOPIC,
    TOPIC_PREFIX,
    OnBadRow,
    sink_options,
)

log = logger("flintmq.spark")

REASON_PROPERTY: Final = "DECODE_ERROR"
PLACE_PROPERTY: Final = "DECODED_FROM"
PLACE_COLUMNS: Final = ("topic", "broker", "queue_id", "partition", "queue_offset", "offset")

QUERY_ID: Final = "sql.streaming.queryId"

Save = Callable[[DataFrame, int], object]


def quarantine(save: Save, to: str, **options: object) -> Quarantine:
    """A function for foreachBatch that sets bad rows apart and hands the others to ``save``.

    ``to`` is a directory, or ``topic:NAME`` with the ``options`` of the sink, such as ``namesrv``.
    """
    texts = {name: str(value) for name, value in options.items()}
    if to.startswith(TOPIC_PREFIX):
        check_sendable_topic(to.removeprefix(TOPIC_PREFIX))
        texts |= {TOPIC.name: to.removeprefix(TOPIC_PREFIX), BAD_ROWS.name: OnBadRow.SKIP}
        sink_options(texts)
    elif texts:
        raise InvalidSetting(next(iter(texts)), "…", "a directory has no options")
    return Quarantine(save, to, texts)


class Quarantine:
    """What `quarantine` makes.  ``rows`` counts the rows that were set apart."""

    def __init__(self, save: Save, to: str, options: dict[str, str]) -> None:
        self.rows = 0
        self._save = save
        self._to = to
        self._options = options

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take one micro-batch."""
        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            bad = kept.where(f.col(DECODE_ERROR).isNotNull())
            first = bad.select(DECODE_ERROR).first()
            if first is not None:
                self._keep(bad, batch_id, bad.count(), first[0])
            body = BODY if BODY in frame.columns else VALUE
            self._save(kept.where(f.col(DECODE_ERROR).isNull()).drop(body, DECODE_ERROR), batch_id)
        finally:
            kept.unpersist()

    def _keep(self, bad: DataFrame, batch_id: int, count: int, reason: str) -> None:
        if self._to.startswith(TOPIC_PREFIX):
            run_id = f"{_query_id(bad)}-{batch_id}"
            writer = _as_messages(bad).write.format("rocketmq").mode("append")
            writer.options(**{**self._options, RUN_ID.name: run_id}).save()
        else:
            bad.write.mode("overwrite").parquet(f"{self._to.rstrip('/')}/batch={batch_id}")
        self.rows += count
        log.warning(
            "batch %d: %d rows do not fit and are in %s; one of them: %s",
            batch_id,
            count,
            self._to,
            reason,
        )


def _as_messages(bad: DataFrame) -> DataFrame:
    """Rows for the sink: the body as it was, and what is known of it as properties."""
    body = BODY if BODY in bad.columns else VALUE
    place = [name for name in PLACE_COLUMNS if name in bad.columns]
    properties = f.create_map(
        f.lit(REASON_PROPERTY),
        f.translate(DECODE_ERROR, "\x00\x01\x02", "   "),
        f.lit(PLACE_PROPERTY),
        f.concat_ws("/", *(f.col(name).cast("string") for name in place)),
    )
    kept = [name for name in ("tags", "keys") if name in bad.columns]
    return bad.select(f.col(body).alias(BODY), *kept, properties.alias("properties"))


def _query_id(frame: DataFrame) -> str:
    found = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    return (found or "quarantine").replace("-", "")
