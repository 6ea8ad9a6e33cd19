"""Dropping what the sink sent more than once: around a listener on threads, and in a frame.

    once = DropRepeats()

    @app.listener("bills")
    @once                      # the listener sees each row of a Spark job once
    def bill(messages): ...

    drop_repeats(spark.read.format("rocketmq").option("properties", "map")…load())
    drop_repeats(spark.readStream…load(), within="1 hour")

A repeat has the topic, the row identity (`flintmq.spark.sink.row_identity`) and the body of a
message that was there before.  A body that differs under the same identity comes from a job whose
rows change their order when they are made again: it is passed on, since nothing may be lost.
Messages that no sink sent are always passed on.

    new ─► claimed ──► the listener ──► consumed, or dead ──► remembered: repeats are dropped
              ▲                   └───► comes again ────────► forgotten
              └── a repeat meanwhile: comes again later

`DropRepeats` remembers a number of rows, the last ones, in the memory of its process: after a
restart, or when another member of the group gets the queue, a repeat is passed on.  The sink
sends repeats to the queues of the first ones, so that members of a group share no memory.

Invariant: a message is dropped only if the listener has consumed one with its identity and body.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

from flintmq.client.idempotence.fresh_messages import Sorting, only_fresh
from flintmq.core.group.listener_results import Again, Listener, Outcome, Retry
from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.model.message import ReceivedMessage
from flintmq.spark.sink.row_identity import ROW_PROPERTY, parse_identity

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

log = logger(__name__)

L = TypeVar("L", bound=Listener)

ROWS_MAX: Final = 1_000_000
"""Rows remembered unless told otherwise: about 8 MB, and more than most batches have."""

_RUN_ROWS: Final = 1_024
"""Rows of a partition that are remembered and forgotten together."""

_RUN_COST: Final = 64
"""What it costs to remember a run, counted in rows, however few of its rows are known."""

_UNKNOWN: Final = 0

RunKey: TypeAlias = tuple[str, str, int, int, int]
"""Topic, write, batch, partition, and which run of its rows."""


class Spot(NamedTuple):
    """The place of a row in the memory, and the checksum of its body, never `_UNKNOWN`."""

    key: RunKey
    at: int
    checksum: int


class DropRepeats:
    """Remembers rows that were consumed; safe for any number of threads and of listeners."""

    blocks = False

    def __init__(self, rows_max: int = ROWS_MAX) -> None:
        if rows_max < _RUN_ROWS + _RUN_COST:
            least = _RUN_ROWS + _RUN_COST
            raise InvalidSetting("rows_max", str(rows_max), f"give a number from {least} on")
        self._rows_max = rows_max
        self._runs: OrderedDict[RunKey, array[int]] = OrderedDict()
        self._cost = 0
        self._claimed: set[Spot] = set()
        self._lock = threading.Lock()
        self.dropped = 0
        """Messages that were not passed on."""
        self.changed = 0
        """Messages that came again with another body, and were passed on."""

    def __call__(self, listener: L) -> L:
        """Wrap a listener so that it gets no repeated rows; a decorator."""
        return only_fresh(listener, self)

    def claim(self, messages: Sequence[ReceivedMessage]) -> Sorting[Spot]:
        """Sort messages into fresh ones, which are the caller's now, and the others."""
        spots = [_spot_of(message) for message in messages]
        sorting = Sorting[Spot](Retry(reason="the same row is being consumed just now"))
        with self._lock:
            for message, spot in zip(messages, spots, strict=True):
                if spot is None:
                    sorting.add_fresh(message, None)
                elif self._knows(spot):
                    self.dropped += 1
                    sorting.add_dropped()
                elif sorting.add_repeat(spot):
                    self.dropped += 1
                elif spot in self._claimed:
                    sorting.add_elsewhere()
                else:
                    self._claimed.add(spot)
                    sorting.add_fresh(message, spot)
        return sorting

    def settle(self, sorting: Sorting[Spot], outcomes: Sequence[Outcome]) -> None:
        """Remember the rows whose messages were consumed."""
        with self._lock:
            for spot, outcome in zip(sorting.keys, outcomes, strict=True):
                if spot is not None:
                    self._claimed.discard(spot)
                    if not isinstance(outcome, Again):
                        self._remember(spot)

    def _knows(self, spot: Spot) -> bool:
        run = self._runs.get(spot.key)
        if run is None or spot.at >= len(run) or run[spot.at] == _UNKNOWN:
            return False
        if run[spot.at] == spot.checksum:
            return True
        self.changed += 1
        if self.changed == 1:
            log.warning(
                "a row came again with another body: the job that sends it does not give its "
                "rows in the same order when it is run again, so its repeats cannot be dropped"
            )
        return False

    def _remember(self, spot: Spot) -> None:
        run = self._runs.get(spot.key)
        if run is None:
            run = self._runs[spot.key] = array("I")
            self._cost += _RUN_COST
        missing = spot.at + 1 - len(run)
        if missing > 0:
            run.extend([_UNKNOWN] * missing)
            self._cost += missing
        run[spot.at] = spot.checksum
        self._runs.move_to_end(spot.key)
        while self._cost > self._rows_max:
            _, oldest = self._runs.popitem(last=False)
            self._cost -= _RUN_COST + len(oldest)


def _spot_of(message: ReceivedMessage) -> Spot | None:
    found = parse_identity(message.properties.get(ROW_PROPERTY))
    if found is None:
        return None
    run, at = divmod(found.row, _RUN_ROWS)
    key = (message.topic, found.write, found.batch, found.partition, run)
    return Spot(key, at, crc32(message.body) or 1)


# On Spark

_IN_RAW: Final = f"(?:^|\x02){ROW_PROPERTY}\x01([^\x02]*)"
_PLACES: Final = (("topic", "broker", "queue_id", "queue_offset"), ("topic", "partition", "offset"))
_IDENTITY, _CHECKSUM, _SEEN = "__flintmq_row", "__flintmq_crc", "__flintmq_seen"


def drop_repeats(frame: DataFrame, within: str | None = None) -> DataFrame:
    """A frame of the source without repeats; it needs the column properties, or Kafka's headers.

    A stream remembers a row for the time ``within``, by the clock and not by the times of the
    messages: a queue that lags behind loses nothing.
    """
    from pyspark.sql import functions as f

    place = next((names for names in _PLACES if set(names) <= set(frame.columns)), None)
    if place is None:
        raise InvalidSetting("columns", ",".join(frame.columns), f"needs {', '.join(_PLACES[0])}")
    body = "body" if "body" in frame.columns else "value"
    if body not in frame.columns:
        raise InvalidSetting("columns", ",".join(frame.columns), "needs body")
    own_place = f.concat_ws("/", *(f.col(name).cast("string") for name in place))
    marked = frame.withColumn(_IDENTITY, f.coalesce(_identity(frame), own_place)).withColumn(
        _CHECKSUM, f.crc32(f.col(body))
    )
    same = ["topic", _IDENTITY, _CHECKSUM]
    if not frame.isStreaming:
        return marked.dropDuplicates(same).drop(_IDENTITY, _CHECKSUM)
    if within is None:
        raise InvalidSetting("within", "", 'a stream cannot remember all; give a time: "1 hour"')
    timed = marked.withColumn(_SEEN, f.current_timestamp()).withWatermark(_SEEN, within)
    kept = timed.dropDuplicatesWithinWatermark(same)
    return kept.drop(_IDENTITY, _CHECKSUM, _SEEN)


def _identity(frame: DataFrame) -> Column:
    """The identity property of a row, as a column; null where a row has none."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType

    kinds = {field.name: field.dataType for field in frame.schema.fields}
    kind = kinds.get("properties")
    if isinstance(kind, MapType):
        return f.try_element_at(f.col("properties"), f.lit(ROW_PROPERTY))
    if kind is not None:
        text = f.decode(f.col("properties"), "utf-8")
        return f.nullif(f.regexp_extract(text, _IN_RAW, 1), f.lit(""))
    if isinstance(kinds.get("headers"), ArrayType):
        chosen = f.filter("headers", lambda header: header["key"] == ROW_PROPERTY)
        return f.decode(f.get(chosen, 0)["value"], "utf-8")
    reason = "give the source the option properties, map or raw"
    raise InvalidSetting("properties", "", reason)
