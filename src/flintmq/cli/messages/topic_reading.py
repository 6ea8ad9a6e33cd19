"""Reads small topics for a report, in this process: no JVM is started for a few messages.

What is read is what the Spark source would read: the same times, filters, retries and dead letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flintmq.core.admin.dead_letters import origin_topic
from flintmq.core.admin.spans import END, START, LocatedSpan, ToTime
from flintmq.core.reading.read_span import Wanted
from flintmq.core.reading.time_text import parse_time
from flintmq.errors import NoRoute
from flintmq.model.group import dead_letter_topic, retry_topic
from flintmq.net.clock import wall_ms

if TYPE_CHECKING:
    from flintmq.client.admin import Admin
    from flintmq.model.bad_record import BadRecord
    from flintmq.model.message import ReceivedMessage
    from flintmq.reports.topic_files import TopicReport


class TopicReading:
    """What is stored between two times in some topics, and how it is filtered."""

    def __init__(
        self,
        admin: Admin,
        start_ms: int | None,
        stop_ms: int | None,
        *,
        tags: str | None = None,
        sql: str | None = None,
    ) -> None:
        self._admin = admin
        self._start_ms = start_ms
        self._stop_ms = stop_ms
        self._wanted = Wanted.by(tags=tags, sql=sql)

    @classmethod
    def between(
        cls,
        admin: Admin,
        since: str | None,
        until: str | None,
        *,
        tags: str | None = None,
        sql: str | None = None,
    ) -> TopicReading:
        """A reading of topics between two times, given as text."""
        now_ms = wall_ms()
        start_ms = None if since is None else parse_time(since, now_ms)
        stop_ms = None if until is None else parse_time(until, now_ms)
        return cls(admin, start_ms, stop_ms, tags=tags, sql=sql)

    def spans(self, topic: str) -> tuple[LocatedSpan, ...]:
        """The spans of a topic, queue by queue; `NoRoute` for an unknown topic."""
        start = START if self._start_ms is None else ToTime(self._start_ms)
        stop = END if self._stop_ms is None else ToTime(self._stop_ms)
        return self._admin.locate_spans(topic, start, stop)

    def count(self, topics: Sequence[str]) -> int:
        """How many messages there are, whatever the filter."""
        return sum(
            each.span.stop - each.span.start for topic in topics for each in self.spans(topic)
        )

    def messages(self, topic: str) -> Iterator[tuple[ReceivedMessage, BadRecord | None]]:
        """Every message, and why it cannot be decoded where it cannot."""
        bad: dict[int, BadRecord] = {}
        for located in self.spans(topic):
            bad.clear()
            messages = self._admin.read(
                located, self._wanted, on_bad=lambda each: bad.update({each.queue_offset: each})
            )
            for message in messages:
                if self._is_in_time(message.store_ms):
                    yield message, bad.pop(message.queue_offset, None)

    def _is_in_time(self, stored_ms: int) -> bool:
        """Between two messages 4.9 finds the earlier one, so one too many may be read."""
        return (self._start_ms is None or stored_ms >= self._start_ms) and (
            self._stop_ms is None or stored_ms < self._stop_ms
        )

    def report(self, topics: Sequence[str], step_ms: int | None) -> TopicReport:
        """Count these topics, and the retries and dead letters of the groups that read them."""
        from flintmq.reports.topic_count import CountedMessage, RetriedMessage, count_topics

        counted = [
            CountedMessage(
                message.topic,
                message.store_ms,
                message.store_ms - message.born_ms,
                len(message.body) if bad is None else None,
                message.tags,
                message.keys,
            )
            for topic in topics
            for message, bad in self.messages(topic)
        ]
        retried = [
            RetriedMessage(topic, origin_topic(message.properties), message.store_ms)
            for topic in self._topics_of_groups(topics)
            for message, _ in self.messages(topic)
        ]
        return count_topics(counted, retried, step_ms=step_ms)

    def _topics_of_groups(self, topics: Sequence[str]) -> list[str]:
        """Retry and dead letter topics that exist, of the groups that read these topics."""
        groups = {group for topic in topics for group in self._admin.describe_topic(topic).groups}
        wanted = {of(group) for group in groups for of in (retry_topic, dead_letter_topic)}
        return sorted(filter(self._is_there, wanted))

    def _is_there(self, topic: str) -> bool:
        try:
            self._admin.route(topic)
        except NoRoute:
            return False
        return True
