"""Numbers about queues, groups and clients mean what the admin tools show."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client import ProducerTable
from flintmq.protocol.bodies.client_call import DirectOutcome, DirectResult
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.offset import (
    ConsumerOffsets,
    ConsumeTimeSpans,
    DelayOffsets,
    QueueTimeSpan,
    format_time,
)
from flintmq.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, QueueProgress, TopicStats
from flintmq.protocol.bodies.topic import TopicConfig

ORDERS_0, ORDERS_1 = QueueRef("orders", "a", 0), QueueRef("orders", "a", 1)


def test_the_lag_of_a_group_is_the_sum_over_its_queues() -> None:
    stats = ConsumeStats(
        offset_table={
            ORDERS_0: QueueProgress(broker_offset=10, consumer_offset=4),
            ORDERS_1: QueueProgress(broker_offset=7, consumer_offset=7),
        }
    )

    assert stats.lag == 6


def test_an_unknown_group_has_an_empty_table() -> None:
    stats = ConsumeStats.from_body(b'{"consumeTps":0.0,"offsetTable":{}}')

    assert stats == ConsumeStats()
    assert stats.to_body() == b'{"consumeTps":0.0,"offsetTable":{}}'


def test_a_list_of_groups_holds_stats_with_queues_as_keys() -> None:
    body = (
        b'{"brokerAddr":"h:1","consumeStatsList":[{"":[]},{"g":[{"consumeTps":0.5,"offsetTable":'
        b'{{"brokerName":"a","queueId":0,"topic":"orders"}:{"brokerOffset":18,"consumerOffset":15,'
        b'"lastTimestamp":3,"pullOffset":0}}}]}],"totalDiff":3,"totalInflightDiff":0}'
    )

    listed = ConsumeStatsList.from_body(body)

    assert listed.consume_stats_list[1]["g"][0].lag == listed.total_diff == 3
    assert listed.to_body() == body


def test_releases_differ_in_the_fields_they_send() -> None:
    old = TopicStats.from_body(b'{"offsetTable":{}}')
    new = TopicStats.from_body(b'{"offsetTable":{},"topicPutTps":0.0}')

    assert (old.topic_put_tps, new.topic_put_tps) == (None, 0.0)
    assert old.to_body() == b'{"offsetTable":{}}'


def test_offsets_are_kept_by_topic_and_group_and_queue_id() -> None:
    offsets = ConsumerOffsets.from_body(b'{"offsetTable":{"t@g":{0:120,1:-1},"%RETRY%g@g":{}}}')

    assert offsets.offset_table == {"t@g": {0: 120, 1: -1}, "%RETRY%g@g": {}}
    assert offsets.to_file() == (
        b'{\n\t"offsetTable":{\n\t\t"t@g":{0:120,1:-1\n\t\t},\n\t\t"%RETRY%g@g":{}\n\t}\n}'
    )


def test_delay_offsets_are_kept_by_level() -> None:
    offsets = DelayOffsets.from_body(b'{"offsetTable":{"3":17,4:20}}')

    assert offsets.offset_table == {3: 17, 4: 20}


def test_times_are_told_in_numbers_and_in_text() -> None:
    span = QueueTimeSpan.of(
        ORDERS_0, min_ms=1794785988350, max_ms=1794785996547, consumed_ms=0, delay_ms=314
    )

    assert span.min_time_stamp_str == "2026-11-15#23:39:48:350"
    assert span.consume_time_stamp_str == "1970-01-01#00:00:00:000"
    assert format_time(-1, UTC) == "1969-12-31#23:59:59:999"
    assert format_time(0, timezone(timedelta(hours=8))) == "1970-01-01#08:00:00:000"
    spans = ConsumeTimeSpans(consume_time_span_set=(span,))
    assert ConsumeTimeSpans.from_body(spans.to_body()) == spans


def test_a_version_moves_on_with_every_change() -> None:
    version = DataVersion(counter=1, timestamp=5)

    later = version.next(now_ms=9)

    assert later == DataVersion(counter=2, timestamp=9)
    assert not later.matches(version)
    assert version.matches(DataVersion(counter=1, state_version=0, timestamp=5))
    assert not version.matches(DataVersion(counter=1, state_version=1, timestamp=5))
    assert not version.matches(DataVersion(counter=1, timestamp=6))


def test_a_topic_tells_its_permission() -> None:
    assert TopicConfig(topic_name="t", perm=5).permission.letters == "R-X"


def test_producers_are_listed_by_group() -> None:
    table = ProducerTable.from_body(
        b'{"data":{"pg":[{"clientId":"x","lastUpdateTimestamp":7,"remoteIP":"/h:1","version":401}]}}'
    )

    (producer,) = table.data["pg"]
    assert (producer.remote_ip, producer.language) == ("/h:1", None)


def test_a_listener_that_threw_is_told_apart() -> None:
    result = DirectResult(consume_result=DirectOutcome.THREW, remark="boom", spent_time_mills=3)

    assert result.to_body() == (
        b'{"autoCommit":true,"consumeResult":"CR_THROW_EXCEPTION","order":false,"remark":"boom",'
        b'"spentTimeMills":3}'
    )
    assert DirectResult.from_body(result.to_body()) == result
