"""From the text of a subscription to a test that the store can run.

Tags become hashes, worked out from the text: what clients send as hashes is not always
right.  SQL92 is compiled and asked about the properties of a record.  Both are remembered by
their text, in limited numbers, because every pull brings the text again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from flintmq.errors import InvalidExpression, MalformedRecord
from flintmq.filter.tags import ALL, parse_tags
from flintmq.protocol.properties import parse_properties
from flintmq.protocol.record import measure_record
from flintmq.store.selection import EVERYTHING, Selection

if TYPE_CHECKING:
    from flintmq.filter.sql_eval import SqlPredicate

TEXTS_KEPT_MAX = 4_096
"""Subscriptions remembered, of each kind."""

KEPT_CHARACTERS_MAX = 4_096
"""Longer texts are read anew each time, so that a peer cannot fill the memory with them."""

NOTHING = Selection(frozenset())


def tag_selection(text: str | None) -> Selection:
    """What a list of tags wants.  Raises `InvalidExpression` for separators alone."""
    if not text or text == ALL:
        return EVERYTHING
    if len(text) > KEPT_CHARACTERS_MAX:
        return _tag_selection.__wrapped__(text)
    return _tag_selection(text)


def sql_selection(text: str) -> Selection:
    """What an SQL92 text wants: everything, if it does not compile."""
    if len(text) > KEPT_CHARACTERS_MAX:
        return _sql_selection.__wrapped__(text)
    return _sql_selection(text)


def predicate_of(text: str) -> SqlPredicate:
    """The compiled expression.  Raises `InvalidExpression`."""
    found = _compiled.__wrapped__(text) if len(text) > KEPT_CHARACTERS_MAX else _compiled(text)
    if isinstance(found, InvalidExpression):
        raise InvalidExpression(*found.args)
    return found


def selection_of(predicate: SqlPredicate) -> Selection:
    """Records whose properties an expression is true for."""
    matches = predicate.matches

    def takes(record: memoryview) -> bool:
        properties = properties_of(record)
        return properties is not None and matches(properties)

    return Selection(record=takes)


def properties_of(record: memoryview) -> dict[str, str] | None:
    """The properties of a record, or nothing when its parts do not fit together."""
    try:
        *_, topic_stop, stop = measure_record(record, 0)
    except MalformedRecord:
        return None
    return parse_properties(bytes(record[topic_stop + 2 : stop]))


@lru_cache(maxsize=TEXTS_KEPT_MAX)
def _tag_selection(text: str) -> Selection:
    subscription = parse_tags(text)
    return EVERYTHING if subscription.takes_all else Selection(subscription.codes)


@lru_cache(maxsize=TEXTS_KEPT_MAX)
def _sql_selection(text: str) -> Selection:
    try:
        return selection_of(predicate_of(text))
    except InvalidExpression:
        return EVERYTHING


@lru_cache(maxsize=TEXTS_KEPT_MAX)
def _compiled(text: str) -> SqlPredicate | InvalidExpression:
    from flintmq.filter.sql_eval import compile_sql  # few brokers are asked for it

    try:
        return compile_sql(text)
    except InvalidExpression as error:
        return error.with_traceback(None)
