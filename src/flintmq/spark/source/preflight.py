"""Checks that a read can work before Spark starts it.

A mistake in options, names or addresses is then one of our own errors, at once, and not a page of
Spark's after its start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from pyspark.sql import SparkSession

from flintmq.arrow.reading.open_queues import open_queues
from flintmq.errors import InvalidSetting
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.options.source_table import SUBSCRIBE
from flintmq.spark.source.offset_ranges import chosen_queues

SENTENCE_CHARACTERS_MAX: Final = 400
"""The part of an error of Spark that is repeated."""

_OURS: Final = "flintmq.errors."


def check_source(options: Mapping[str, str], *, stream: bool) -> SourceOptions:
    """Parse the options of a source and check that they name queues that exist."""
    parsed = SourceOptions.parse(options, stream=stream)
    with closing(open_queues(parsed.access, parsed.store)) as queues:
        chosen_queues(queues, parsed.choice)
    return parsed


def as_texts(given: Mapping[str, Any], topics: str | Sequence[str] = ()) -> dict[str, str]:
    """Options as texts, with the topics among them; None counts as not given."""
    named = topics if isinstance(topics, str) else ",".join(topics)
    options = {name: _text(value) for name, value in given.items() if value is not None}
    if named:
        if any(name.lower() == SUBSCRIBE.name for name in options):
            raise InvalidSetting(SUBSCRIBE.name, named, "the topics are named twice")
        options[SUBSCRIBE.name] = named
    return options


def has_option(options: Mapping[str, str], *names: str) -> bool:
    """Whether one of these options is given, in upper or lower case."""
    known = {name.lower() for name in options}
    return any(name.lower() in known for name in names)


def require_driver(spark: object, why: str) -> None:
    """`InvalidSetting` for a session of Spark Connect, whose driver is elsewhere."""
    if not isinstance(spark, SparkSession):
        raise InvalidSetting("spark", type(spark).__name__, f"through Spark Connect {why}")


def sentence(error: BaseException) -> str:
    """The message of an error of Spark: that of our own error inside it, else its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines:
        before, ours, told = line.partition(_OURS)
        if ours and not before.strip().endswith("raise"):
            _name, _, words = told.partition(": ")
            return (words or told)[:SENTENCE_CHARACTERS_MAX]
    return (lines[0] if lines else type(error).__name__)[:SENTENCE_CHARACTERS_MAX]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
