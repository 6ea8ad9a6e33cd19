"""`flintmq.spark.read`: a topic as a frame, with every pyspark from 3.5 on.

    read ──► plans here and now ──► spark.range(tasks) ──mapInArrow──► each task reads its part

The plan, the options and the rows are those of ``spark.read.format("rocketmq")``.  Two things
differ: the read is planned when it is called and not when the frame is used, so the frame has the
same rows each time; and conditions of the query are not pushed down.

Invariant: task ``n`` reads partition ``n`` of the plan, however often it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.options.spark_schema import spark_schema
from flintmq.spark.source.batch_read import BatchReader
from flintmq.spark.source.preflight import as_texts
from flintmq.spark.source.read_task import read_rows
from flintmq.spark.versions.source_bases import InputPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: SparkSession, topics: str | Sequence[str] = (), **options: object) -> DataFrame:
    """The messages of these topics as a frame; ``options`` are those of ``spark.read``."""
    parsed = SourceOptions.parse(as_texts(options, topics), stream=False)
    return frame_of(spark, parsed, BatchReader(parsed).partitions())


def frame_of(
    spark: SparkSession, options: SourceOptions, partitions: Sequence[InputPartition]
) -> DataFrame:
    """The frame whose tasks read these partitions, one each."""
    schema = spark_schema(options.shape)
    if not partitions:
        return spark.createDataFrame([], schema)
    places = spark.range(0, len(partitions), 1, len(partitions))
    return places.mapInArrow(PartitionRead(options, partitions), schema)


class PartitionRead:
    """What a task does: it gets the number of its partition and gives the rows.

    Spark hands it to every task, with the partitions of all of them.
    """

    def __init__(self, options: SourceOptions, partitions: Sequence[InputPartition]) -> None:
        self._options = options
        self._partitions = list(partitions)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers: list[Any] = batch.column(0).to_pylist()
            for number in numbers:
                yield from read_rows(self._options, self._partitions[number])
