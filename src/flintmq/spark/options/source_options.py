"""The options of the source, read into one value that travels with every reader and task.

Names are Kafka's where the meaning is Kafka's.  Parsing does no I/O: whether topics, queues and
offsets exist is checked when the read is planned.

Invariant: a `SourceOptions` that exists is free of contradictions, holds names as the brokers know
them, pickles, and shows no secret when it is printed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from flintmq.arrow.reading.access import Access
from flintmq.arrow.schema import (
    BAD_RECORD,
    COLUMNS,
    KAFKA_COLUMNS,
    PROPERTIES,
    Form,
    OnBadRecord,
    Properties,
    Shape,
)
from flintmq.core.admin.spans import END, START, ToEnd, ToStart, ToTime
from flintmq.core.reading.read_span import Wanted
from flintmq.errors import InvalidSetting
from flintmq.model.group import check_group_name
from flintmq.spark.options import offset_specs as places
from flintmq.spark.options import source_table as table
from flintmq.spark.options.connection_options import CONNECTION, NAMESPACE, access_of
from flintmq.spark.options.offset_specs import Choice, GivenPlace, OfGroup, Place, TopicsLike, Word
from flintmq.spark.options.option_table import NotAllowed, Option, OptionValues, read_options

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """How large one batch of a stream may be, and how long to wait for it to be large enough."""

    offsets_max: int | None = None
    bytes_max: int | None = None
    offsets_min: int | None = None
    delay_max_ms: int = table.MAX_DELAY.default


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read, from where to where, and in which form.

    With ``store`` set there is no cluster, and ``access`` has no name servers.
    """

    access: Access
    choice: Choice
    wanted: Wanted
    start: Place
    end: Place
    limits: Limits
    shape: Shape
    partitions_min: int | None = None
    records_max: int | None = None
    trigger: table.TriggerKind | None = None
    fail_on_data_loss: bool = True
    on_bad_record: OnBadRecord = OnBadRecord.QUARANTINE
    group: str | None = None
    store: str | None = None

    @classmethod
    def parse(
        cls,
        options: Mapping[str, str],
        *,
        stream: bool,
        environment: Mapping[str, str] = os.environ,
    ) -> SourceOptions:
        """Read what a user gave; `InvalidSetting` or `InvalidExpression` say what is wrong."""
        values = read_options(options, table.SOURCE, what="the source")
        values.at_most_one(table.TAGS, table.SQL)
        group = _group(values)
        return cls(
            access=_access(values, environment),
            choice=_choice(values),
            wanted=Wanted.by(tags=values[table.TAGS], sql=values[table.SQL]),
            start=_start(values, group, stream=stream),
            end=_end(values, group, stream=stream),
            limits=_limits(values, stream=stream),
            shape=_shape(values),
            partitions_min=values[table.MIN_PARTITIONS],
            records_max=values[table.MAX_RECORDS],
            trigger=values[table.TRIGGER],
            fail_on_data_loss=values[table.FAIL_ON_DATA_LOSS],
            on_bad_record=_on_bad_record(values, group, stream=stream),
            group=group,
            store=values[table.STORE],
        )


def _access(values: OptionValues, environment: Mapping[str, str]) -> Access:
    if table.STORE not in values:
        return access_of(values, environment)
    for option in CONNECTION:
        if option in values:
            raise values.refuse(option, "has no meaning with store: no cluster is asked then")
    return Access((), values[NAMESPACE])


def _group(values: OptionValues) -> str | None:
    given, namespace = values[table.CONSUMER_GROUP], values[NAMESPACE]
    if given is None:
        return None
    return _read(
        values,
        table.CONSUMER_GROUP,
        lambda: places.in_namespace(given, namespace, check_group_name),
    )


def _choice(values: OptionValues) -> Choice:
    values.at_most_one(table.SUBSCRIBE, table.SUBSCRIBE_PATTERN, table.ASSIGN)
    namespace = values[NAMESPACE]
    subscribed, assigned = values[table.SUBSCRIBE], values[table.ASSIGN]
    like = values[table.SUBSCRIBE_PATTERN]
    if subscribed is not None:
        return _read(values, table.SUBSCRIBE, lambda: places.topics(subscribed, namespace))
    if assigned is not None:
        return _read(values, table.ASSIGN, lambda: places.these_queues(assigned, namespace))
    if like is not None:
        return TopicsLike(like, namespace)
    reason = "say which topics to read: subscribe, subscribePattern or assign"
    raise InvalidSetting(table.SUBSCRIBE.name, "", reason)


def _start(values: OptionValues, group: str | None, *, stream: bool) -> Place:
    values.at_most_one(table.STARTING_OFFSETS, table.STARTING_TIMESTAMP)
    given, time_ms = values[table.STARTING_OFFSETS], values[table.STARTING_TIMESTAMP]
    if time_ms is not None:
        return ToTime(time_ms)
    usual = END if stream else START
    if given is None:
        return OfGroup(group, usual) if stream and group is not None else usual
    return _place(values, table.STARTING_OFFSETS, given, group, usual)


def _end(values: OptionValues, group: str | None, *, stream: bool) -> Place:
    values.at_most_one(table.ENDING_OFFSETS, table.ENDING_TIMESTAMP)
    given, time_ms = values[table.ENDING_OFFSETS], values[table.ENDING_TIMESTAMP]
    if stream:
        for option in (table.ENDING_OFFSETS, table.ENDING_TIMESTAMP):
            if option in values:
                raise values.refuse(option, "a stream has no end: only spark.read takes this")
    if time_ms is not None:
        start_ms = values[table.STARTING_TIMESTAMP]
        if start_ms is not None and start_ms > time_ms:
            raise values.refuse(table.ENDING_TIMESTAMP, "lies before startingTimestamp")
        return ToTime(time_ms)
    if given is None:
        return END
    if isinstance(given, ToStart):
        raise values.refuse(table.ENDING_OFFSETS, "nothing lies before the earliest")
    return _place(values, table.ENDING_OFFSETS, given, group, START)


def _place(
    values: OptionValues,
    option: Option[GivenPlace | None],
    given: GivenPlace,
    group: str | None,
    without_offsets: ToStart | ToEnd,
) -> Place:
    if isinstance(given, dict):
        namespace, is_end = values[NAMESPACE], option is table.ENDING_OFFSETS
        return _read(values, option, lambda: places.each_queue(given, namespace, is_end=is_end))
    if given is Word.GROUP:
        if group is None:
            raise values.refuse(option, "needs consumerGroup, the group that is meant")
        return OfGroup(group, without_offsets)
    return given


def _limits(values: OptionValues, *, stream: bool) -> Limits:
    values.needs(table.MAX_DELAY, table.MIN_OFFSETS)
    if not stream:
        for option in (table.MAX_OFFSETS, table.MAX_BYTES, table.MIN_OFFSETS, table.TRIGGER):
            if option in values:
                raise values.refuse(option, "a batch has no triggers: only spark.readStream does")
    most, least = values[table.MAX_OFFSETS], values[table.MIN_OFFSETS]
    if most is not None and least is not None and least > most:
        raise values.refuse(table.MIN_OFFSETS, f"is more than maxOffsetsPerTrigger, {most}")
    return Limits(most, values[table.MAX_BYTES], least, values[table.MAX_DELAY])


def _on_bad_record(values: OptionValues, group: str | None, *, stream: bool) -> OnBadRecord:
    """A dead letter is a message that is written: only a stream does so, and each batch once."""
    rule = values[table.ON_BAD_RECORD]
    if rule is OnBadRecord.DEAD_LETTER:
        if not stream:
            raise values.refuse(table.ON_BAD_RECORD, "a batch writes nothing: give another rule")
        if table.STORE in values:
            raise values.refuse(table.ON_BAD_RECORD, "a store directory takes no messages")
        if group is None:
            raise values.refuse(table.ON_BAD_RECORD, "needs consumerGroup, whose dead letter it is")
    if rule is not OnBadRecord.QUARANTINE and _shape(values).bad_record:
        reason = f"leaves nothing for the column {BAD_RECORD}, which is asked for"
        raise values.refuse(table.ON_BAD_RECORD, reason)
    return rule


def _shape(values: OptionValues) -> Shape:
    """The columns; ``bad_record`` may be among the chosen ones, or be asked for by its option."""
    chosen, with_bad = values[table.COLUMNS_WANTED], values[table.INCLUDE_BAD_RECORD]
    if chosen is not None and BAD_RECORD in map(str.lower, chosen):
        if table.INCLUDE_BAD_RECORD in values and not with_bad:
            reason = "contradicts columns, which has bad_record"
            raise values.refuse(table.INCLUDE_BAD_RECORD, reason)
        chosen, with_bad = tuple(name for name in chosen if name.lower() != BAD_RECORD), True
    return replace(_shape_of(values, chosen), bad_record=with_bad)


def _shape_of(values: OptionValues, chosen: tuple[str, ...] | None) -> Shape:
    form, properties = values[table.SCHEMA], values[table.PROPERTIES_AS]
    if form is Form.KAFKA:
        if table.PROPERTIES_AS in values:
            raise values.refuse(table.PROPERTIES_AS, "schema=kafka has them in the column headers")
        values.at_most_one(table.COLUMNS_WANTED, table.INCLUDE_HEADERS)
        if chosen is not None:
            return Shape(_columns(values, chosen, KAFKA_COLUMNS), form)
        with_headers = values[table.INCLUDE_HEADERS]
        return Shape(KAFKA_COLUMNS if with_headers else KAFKA_COLUMNS[:-1], form)
    if table.INCLUDE_HEADERS in values:
        raise values.refuse(table.INCLUDE_HEADERS, "is for schema=kafka; here it is properties=map")
    if chosen is None:
        return Shape(COLUMNS, form, properties)
    columns = _columns(values, chosen, (*COLUMNS, PROPERTIES))
    if PROPERTIES in columns and properties is Properties.OFF:
        if table.PROPERTIES_AS in values:
            raise values.refuse(table.PROPERTIES_AS, "contradicts columns, which has properties")
        properties = Properties.MAP
    return Shape(tuple(name for name in columns if name != PROPERTIES), form, properties)


def _columns(
    values: OptionValues, chosen: tuple[str, ...], known: tuple[str, ...]
) -> tuple[str, ...]:
    by_key = {name.lower(): name for name in known}
    columns = tuple(by_key.get(name.lower(), "") for name in chosen)
    if "" in columns:
        unknown = chosen[columns.index("")]
        reason = f"there is no column {unknown}; there are {', '.join((*known, BAD_RECORD))}"
        raise values.refuse(table.COLUMNS_WANTED, reason)
    if len(set(columns)) < len(columns):
        raise values.refuse(table.COLUMNS_WANTED, "a column is there twice")
    return columns


def _read(values: OptionValues, option: Option[Any], make: Callable[[], T]) -> T:
    """What could be read only now that the namespace is known."""
    try:
        return make()
    except NotAllowed as error:
        raise values.refuse(option, str(error)) from None
