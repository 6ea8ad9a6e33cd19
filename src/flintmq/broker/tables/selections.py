"""From the text of a subscription to a test that the store can run.

Tags become hashes, worked out from the text: what clients send as hashes is not always
right.  SQL92 is compiled and asked about the properties of a record.  Both are remembered by
their text, failures too, because every pull brings the text again; `text_cache` limits how much.

Refused: texts over the limits of `filter` and of here.  RocketMQ has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.broker.limits.text_cache import TextCache
from flintmq.errors import ExpressionTooLarge, InvalidExpression, MalformedRecord
from flintmq.filter.tags import ALL, SEPARATOR, parse_tags
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import measure_record
from flintmq.store.queues.selection import EVERYTHING, Selection

if TYPE_CHECKING:
    from flintmq.filter.sql_eval import SqlPredicate

TAGS_MAX = 4_096
"""Tags of one subscription: hashing so many takes about 3 ms.  Real ones name a handful."""

TAGS_CHARACTERS_MAX = 32_768
"""Of the text of such a subscription; no message has a longer tag."""

TAGS_KEPT_CHARACTERS = 4 * 1024 * 1024
"""Characters of tag subscriptions remembered; the hashes take up to 15 times as many bytes."""

SQL_KEPT_CHARACTERS = 1024 * 1024
"""Characters of SQL92 texts remembered; what is compiled takes 50 to 240 times as many bytes."""

USUAL_OPERATIONS = 128
"""Names, values and operators that a test may have before a pull tests fewer records."""

NOTHING = Selection(frozenset())

_tags: TextCache[Selection | InvalidExpression] = TextCache(TAGS_KEPT_CHARACTERS)
_sql: TextCache[tuple[SqlPredicate | InvalidExpression, Selection]] = TextCache(SQL_KEPT_CHARACTERS)


def tag_selection(text: str | None) -> Selection:
    """What a list of tags wants.  Raises `InvalidExpression` for separators alone."""
    if not text or text == ALL:
        return EVERYTHING
    found = _tags.get(text)
    if found is None:
        found = _read_tags(text)
        _tags.put(text, found)
    if isinstance(found, InvalidExpression):
        raise type(found)(*found.args)
    return found


def require_tags(text: str) -> None:
    """Raise `ExpressionTooLarge` for more tags than a subscription may have."""
    if len(text) > TAGS_CHARACTERS_MAX:
        reason = f"tags may have {TAGS_CHARACTERS_MAX} characters, not {len(text)}"
        raise ExpressionTooLarge(text[:SHOWN], SHOWN, reason)
    if text.count(SEPARATOR) >= TAGS_MAX:
        reason = f"a subscription may have {TAGS_MAX} tags"
        raise ExpressionTooLarge(text[:SHOWN], SHOWN, reason)


SHOWN = 80
"""Characters of a text over a limit that its error shows."""


def is_compiled(text: str) -> bool:
    """Whether an SQL92 text costs nothing: it was compiled, or refused, before."""
    return text in _sql


def sql_selection(text: str) -> Selection:
    """What an SQL92 text wants: everything, if it does not compile.

    Raises `ExpressionTooLarge` for one that nobody tried to compile.
    """
    predicate, selection = _compiled(text)
    if isinstance(predicate, ExpressionTooLarge):
        raise ExpressionTooLarge(*predicate.args)
    return selection


def predicate_of(text: str) -> SqlPredicate:
    """The compiled expression.  Raises `InvalidExpression`."""
    found, _ = _compiled(text)
    if isinstance(found, InvalidExpression):
        raise type(found)(*found.args)
    return found


def selection_of(predicate: SqlPredicate) -> Selection:
    """Records whose properties an expression is true for."""
    matches = predicate.matches

    def takes(record: memoryview) -> bool:
        properties = properties_of(record)
        return properties is not None and matches(properties)

    return Selection(record=takes, cost=max(1, predicate.operations // USUAL_OPERATIONS))


def properties_of(record: memoryview) -> dict[str, str] | None:
    """The properties of a record, or nothing when its parts do not fit together."""
    try:
        *_, topic_stop, stop = measure_record(record, 0)
    except MalformedRecord:
        return None
    return parse_properties(bytes(record[topic_stop + 2 : stop]))


def _read_tags(text: str) -> Selection | InvalidExpression:
    try:
        require_tags(text)
        subscription = parse_tags(text)
    except InvalidExpression as error:
        return error.with_traceback(None)
    return EVERYTHING if subscription.takes_all else Selection(subscription.codes)


def _compiled(text: str) -> tuple[SqlPredicate | InvalidExpression, Selection]:
    found = _sql.get(text)
    if found is None:
        found = _compile(text)
        _sql.put(text, found)
    return found


def _compile(text: str) -> tuple[SqlPredicate | InvalidExpression, Selection]:
    from flintmq.filter.sql_eval import compile_sql  # few brokers are asked for it

    try:
        predicate = compile_sql(text)
    except InvalidExpression as error:
        return error.with_traceback(None), EVERYTHING
    return predicate, selection_of(predicate)
