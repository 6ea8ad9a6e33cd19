"""Every option of the source is read into a typed value, and contradictions are refused."""

from __future__ import annotations

import json
import pickle
import re

import pytest

from flintmq.arrow.schema import COLUMNS, KAFKA_COLUMNS, Form, OnBadRecord, Properties, Shape
from flintmq.core.admin.spans import END, START, ToOffset, ToTime
from flintmq.core.reading.read_span import EVERYTHING, Wanted
from flintmq.errors import InvalidExpression, InvalidSetting
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.net.tls import ClientTls
from flintmq.spark.options.offset_specs import OfEach, OfGroup, TheseQueues, Topics, TopicsLike
from flintmq.spark.options.source_options import Limits, SourceOptions

LEAST = {"namesrv": "localhost:9876", "subscribe": "orders"}


def parse(given: dict[str, str] | None = None, *, stream: bool = False) -> SourceOptions:
    return SourceOptions.parse({**LEAST, **(given or {})}, stream=stream, environment={})


def alone(given: dict[str, str], *, stream: bool = False) -> SourceOptions:
    return SourceOptions.parse(given, stream=stream, environment={})


def refusal(given: dict[str, str], *, stream: bool = False) -> InvalidSetting:
    with pytest.raises(InvalidSetting) as raised:
        parse(given, stream=stream)
    return raised.value


# Where the cluster is


def test_a_batch_reads_all_there_is_and_a_stream_what_comes() -> None:
    batch, stream = parse(), parse(stream=True)

    assert batch.access.name_servers == ("localhost:9876",)
    assert batch.choice == Topics(("orders",))
    assert (batch.start, batch.end, batch.wanted) == (START, END, EVERYTHING)
    assert (stream.start, stream.end) == (END, END)
    assert batch.shape == Shape()
    assert stream.limits == Limits(None, None, None, 900_000)
    assert batch.fail_on_data_loss
    assert (batch.partitions_min, batch.records_max, batch.store) == (None, None, None)


def test_the_name_server_may_come_from_the_environment() -> None:
    outside = {"NAMESRV_ADDR": "a:1;b:2"}

    options = SourceOptions.parse({"subscribe": "t"}, stream=False, environment=outside)

    assert options.access.name_servers == ("a:1", "b:2")
    with pytest.raises(InvalidSetting, match="NAMESRV_ADDR"):
        alone({"subscribe": "t"})


def test_an_account_and_tls_are_part_of_the_access() -> None:
    given = {"accessKey": "me", "secretKey": " hush ", "securityToken": "tok", "tls": "true"}

    access = parse(given).access

    assert access.account is not None
    assert access.account.secret_key == " hush "
    assert access.account.security_token == "tok"
    assert access.tls == ClientTls()
    assert "hush" not in repr(parse(given))


def test_any_detail_of_tls_means_tls() -> None:
    given = {"tlsCa": "/ca.pem", "tlsVerify": "false", "tlsServerName": "x"}

    assert parse(given).access.tls == ClientTls("/ca.pem", server_name="x", verify=False)
    assert parse({"tls": "false"}).access.tls is None
    assert "contradicts tlsCa" in refusal({**given, "tls": "false"}).reason
    assert "tlsCertificate" in refusal({"tlsKey": "k"}).reason


@pytest.mark.parametrize(
    ("word", "place"),
    [
        ("first", START),
        ("start", START),
        (" Earliest ", START),
        ("last", END),
        ("latest", END),
        ("end", END),
        ("0", ToOffset(QueueOffset(0))),
        ("1500", ToOffset(QueueOffset(1_500))),
        ("1794803628010", ToTime(1_794_803_628_010)),
        ("2026-11-16T08:30:00+01:00", ToTime(1_794_814_200_000)),
    ],
)
def test_starting_offsets_take_what_consumers_take(word: str, place: object) -> None:
    for stream in (False, True):
        assert parse({"startingOffsets": word}, stream=stream).start == place


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"accessKey": "me"}, "accessKey"),
        ({"secretKey": "me"}, "secretKey"),
        ({"securityToken": "me"}, "securityToken"),
        ({"namesrv": "nowhere"}, "namesrv"),
        ({"namespace": "a.b"}, "namespace"),
        ({"consumerGroup": "a b"}, "consumerGroup"),
        ({"subscribe": "a/b"}, "subscribe"),
        ({"subscribe": "a,,b"}, "subscribe"),
        ({"subscribePattern": "x"}, "subscribe"),
        ({"assign": '{"t":[0]}'}, "subscribe"),
        ({"tags": "a", "sql": "a = 1"}, "tags"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss"),
        ({"minPartitions": "0"}, "minPartitions"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition"),
        ({"store": "/data"}, "namesrv"),
    ],
)
def test_wrong_or_contradictory_options_are_refused(given: dict[str, str], setting: str) -> None:
    assert refusal(given).setting == setting


def test_a_filter_that_no_broker_takes_is_refused() -> None:
    assert parse({"tags": "a || b"}).wanted == Wanted.by(tags="a || b")
    assert parse({"sql": "a > 1"}).wanted == Wanted.by(sql="a > 1")
    with pytest.raises(InvalidExpression):
        parse({"sql": "a >"})


def test_a_store_directory_needs_no_cluster() -> None:
    options = alone({"store": "/data/store", "subscribe": "t"})

    assert options.store == "/data/store"
    assert options.access.name_servers == ()


# Which queues


def test_topics_are_chosen_by_name_by_pattern_or_queue_by_queue() -> None:
    cluster = {"namesrv": "a:1"}

    several = alone({**cluster, "subscribe": "b, a"})
    like = alone({**cluster, "subscribePattern": "order.*"})
    these = alone({**cluster, "assign": '{"t": {"b1": [1, 0]}, "u": [2]}'})

    assert several.choice == Topics(("b", "a"))
    assert like.choice == TopicsLike("order.*")
    assert these.choice == TheseQueues((("t", "b1", 1), ("t", "b1", 0), ("u", None, 2)))
    with pytest.raises(InvalidSetting, match="subscribe, subscribePattern or assign"):
        alone(cluster)


def test_names_are_put_into_the_namespace() -> None:
    each = '{"orders": {"b": {"0": 5}}}'

    options = parse({"namespace": "ns", "consumerGroup": "g", "startingOffsets": each})

    assert options.choice == Topics(("ns%orders",))
    assert options.group == "ns%g"
    assert options.start == OfEach(((QueueRef("ns%orders", "b", 0), ToOffset(QueueOffset(5))),))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("[]", "a JSON object"),
        ("{", "is no JSON"),
        ("{}", "names no queue"),
        ('{"t": {}}', "for every broker"),
        ('{"t": {"b": 3}}', "for every broker"),
        ('{"t": [-1]}', "a queue id is a whole number"),
        ('{"t": [true]}', "a queue id is a whole number"),
        ('{"t": [0], "t": [1]}', "'t' is there twice"),
        ('{"t/x": [0]}', "t/x"),
    ],
)
def test_a_wrong_assignment_says_how_to_write_it(given: str, says: str) -> None:
    with pytest.raises(InvalidSetting, match="assign") as raised:
        alone({"namesrv": "a:1", "assign": given})

    assert says in raised.value.reason


def test_a_pattern_has_to_be_one() -> None:
    with pytest.raises(InvalidSetting, match="regular expression"):
        alone({"namesrv": "a:1", "subscribePattern": "a("})


# From where to where


def test_a_stream_with_a_group_starts_where_the_group_stands() -> None:
    group = {"consumerGroup": "g"}

    assert parse(group, stream=True).start == OfGroup("g", END)
    assert parse(group).start == START
    assert parse({**group, "startingOffsets": "group"}).start == OfGroup("g", START)
    assert parse({**group, "endingOffsets": "group"}).end == OfGroup("g", START)
    assert parse({**group, "startingOffsets": "Latest"}, stream=True).start == END
    assert parse({**group, "startingOffsets": "earliest"}, stream=True).start == START


def test_offsets_may_be_given_queue_by_queue() -> None:
    given = json.dumps({"t": {"b": {"10": -1, "2": 7, "0": -2}}})

    options = parse({"startingOffsets": given})

    first, second, third = (QueueRef("t", "b", number) for number in (0, 2, 10))
    expected = OfEach(((first, START), (second, ToOffset(QueueOffset(7))), (third, END)))
    assert options.start == expected


def test_times_are_milliseconds_or_iso_with_an_offset() -> None:
    iso = parse(
        {"startingTimestamp": "2026-11-16T09:30:00+01:00", "endingTimestamp": "1794821400001"}
    )

    assert iso.start == ToTime(1_794_817_800_000)
    assert iso.end == ToTime(1_794_821_400_001)
    assert parse({"startingTimestamp": "0"}, stream=True).start == ToTime(0)


@pytest.mark.parametrize("given", ["yesterday", "2026-11-16T09:30:00", "1900-01-01T00:00Z", "-5"])
def test_other_times_are_refused(given: str) -> None:
    assert "milliseconds since 1970" in refusal({"startingTimestamp": given}).reason


@pytest.mark.parametrize(
    ("given", "setting", "says"),
    [
        ({"startingOffsets": "group"}, "startingOffsets", "consumerGroup"),
        ({"startingOffsets": "newest"}, "startingOffsets", "earliest, latest, group"),
        ({"startingOffsets": "timestamp"}, "startingOffsets", "give the time itself"),
        ({"endingOffsets": "first"}, "endingOffsets", "nothing lies before the earliest"),
        ({"startingOffsets": '{"t": {"b": {"0": -3}}}'}, "startingOffsets", "-2 for earliest"),
        ({"startingOffsets": '{"t": {"b": {"0": 1.5}}}'}, "startingOffsets", "whole number"),
        ({"startingOffsets": '{"t": {"b": {"0": true}}}'}, "startingOffsets", "whole number"),
        ({"startingOffsets": '{"t": {"b": {"x": 1}}}'}, "startingOffsets", "a queue id"),
        ({"startingOffsets": '{"t": {"b": [1]}}'}, "startingOffsets", "write {"),
        ({"startingOffsets": '{"t": {"0": 1}}'}, "startingOffsets", "write {"),
        ({"startingOffsets": '{"t": [1]}'}, "startingOffsets", "write {"),
        ({"startingOffsets": "{}"}, "startingOffsets", "names no queue"),
        ({"startingOffsets": "latest", "startingTimestamp": "1"}, "startingOffsets", "contradicts"),
        ({"endingOffsets": "latest", "endingTimestamp": "1"}, "endingOffsets", "contradicts"),
        ({"endingOffsets": "earliest"}, "endingOffsets", "before the earliest"),
        ({"endingOffsets": '{"t": {"b": {"0": -2}}}'}, "endingOffsets", "before the earliest"),
        ({"startingTimestamp": "5", "endingTimestamp": "4"}, "endingTimestamp", "lies before"),
    ],
)
def test_wrong_places_say_what_is_wrong(given: dict[str, str], setting: str, says: str) -> None:
    error = refusal(given)

    assert error.setting == setting
    assert says in error.reason


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    given = "latest" if name == "endingOffsets" else "5"

    assert "a stream has no end" in refusal({name: given}, stream=True).reason


# How much


def test_limits_are_for_streams() -> None:
    given = {
        "maxOffsetsPerTrigger": "100",
        "maxBytesPerTrigger": "1000",
        "minOffsetsPerTrigger": "10",
        "maxTriggerDelay": "10s",
    }

    assert parse(given, stream=True).limits == Limits(100, 1_000, 10, 10_000)
    assert "only spark.readStream" in refusal(given).reason


def test_a_least_size_fits_to_the_greatest_and_a_delay_needs_it() -> None:
    contrary = {"minOffsetsPerTrigger": "11", "maxOffsetsPerTrigger": "10"}

    assert "maxOffsetsPerTrigger, 10" in refusal(contrary, stream=True).reason
    assert "minOffsetsPerTrigger" in refusal({"maxTriggerDelay": "1s"}, stream=True).reason


def test_partitions_may_be_cut_for_both() -> None:
    given = {"minPartitions": "8", "maxRecordsPerPartition": "1000", "failOnDataLoss": "false"}

    for stream in (False, True):
        options = parse(given, stream=stream)
        assert (options.partitions_min, options.records_max) == (8, 1000)
        assert not options.fail_on_data_loss


# In which form


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ({}, Shape()),
        ({"columns": "Body, TOPIC"}, Shape(("body", "topic"))),
        ({"properties": "map"}, Shape(COLUMNS, properties=Properties.MAP)),
        ({"properties": "raw", "columns": "body"}, Shape(("body",), properties=Properties.RAW)),
        ({"columns": "properties,body"}, Shape(("body",), properties=Properties.MAP)),
        ({"columns": "properties", "properties": "raw"}, Shape((), properties=Properties.RAW)),
        ({"schema": "kafka"}, Shape(KAFKA_COLUMNS, Form.KAFKA)),
        ({"schema": "kafka", "includeHeaders": "true"}, Shape(KAFKA_COLUMNS, Form.KAFKA)),
        ({"schema": "kafka", "includeHeaders": "false"}, Shape(KAFKA_COLUMNS[:-1], Form.KAFKA)),
        (
            {"schema": "KAFKA", "columns": "value,timestamptype"},
            Shape(("value", "timestampType"), Form.KAFKA),
        ),
    ],
)
def test_columns_are_chosen_by_options(given: dict[str, str], shape: Shape) -> None:
    assert parse(given).shape == shape


@pytest.mark.parametrize(
    ("given", "setting", "says"),
    [
        ({"columns": "body,bodi"}, "columns", "there is no column bodi; there are topic, broker"),
        ({"columns": "body,BODY"}, "columns", "twice"),
        ({"columns": "value"}, "columns", "no column value"),
        ({"columns": "body", "schema": "kafka"}, "columns", "there are key, value"),
        ({"columns": "properties", "properties": "off"}, "properties", "contradicts columns"),
        ({"schema": "kafka", "properties": "map"}, "properties", "headers"),
        ({"schema": "kafka", "includeHeaders": "true", "columns": "key"}, "columns", "contradicts"),
        ({"includeHeaders": "true"}, "includeHeaders", "schema=kafka"),
        ({"schema": "avro"}, "schema", "rocketmq, kafka"),
        ({"properties": "json"}, "properties", "off, raw, map"),
    ],
)
def test_wrong_columns_say_which_there_are(given: dict[str, str], setting: str, says: str) -> None:
    error = refusal(given)

    assert error.setting == setting
    assert says in error.reason


def test_options_travel() -> None:
    given = {
        "consumerGroup": "g",
        "startingOffsets": '{"orders": {"b": {"0": 3}}}',
        "tls": "true",
        "accessKey": "a",
        "secretKey": "s",
        "sql": "a = 1",
        "columns": "body",
    }
    options = parse(given, stream=True)

    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(options) == hash(parse(given, stream=True))


def test_spark_hands_names_over_in_lower_case() -> None:
    given = {"startingoffsets": "earliest", "maxoffsetspertrigger": "5", "path": "/x"}

    options = parse(given, stream=True)

    assert (options.start, options.limits.offsets_max) == (START, 5)


def test_options_of_kafka_say_what_to_give_instead() -> None:
    assert "namesrv" in refusal({"kafka.bootstrap.servers": "a:1"}).reason
    assert "consumerGroup" in refusal({"kafka.group.id": "a"}).reason
    assert "no meaning here" in refusal({"kafka.security.protocol": "a"}).reason


# Records that cannot be decoded


def test_a_record_that_cannot_be_decoded_has_a_row_unless_told_otherwise() -> None:
    assert parse().on_bad_record is OnBadRecord.QUARANTINE
    assert parse({"onBadRecord": "Skip"}).on_bad_record is OnBadRecord.SKIP
    assert parse({"includeBadRecord": "true"}).shape == Shape(bad_record=True)
    chosen = parse({"columns": "Bad_Record,body"}).shape
    assert chosen == Shape(("body",), bad_record=True)
    kafka = parse({"schema": "kafka", "includeBadRecord": "true"}).shape
    assert kafka == Shape(KAFKA_COLUMNS, Form.KAFKA, bad_record=True)


def test_dead_letters_are_for_streams_of_a_group() -> None:
    dead = {"onBadRecord": "dead_letter"}

    options = parse({**dead, "consumerGroup": "g"}, stream=True)

    assert options.on_bad_record is OnBadRecord.DEAD_LETTER
    assert "consumerGroup" in str(refusal(dead, stream=True))
    assert "a batch writes nothing" in str(refusal({**dead, "consumerGroup": "g"}))
    with pytest.raises(InvalidSetting, match="takes no messages"):
        alone({"store": "d", "subscribe": "t", "consumerGroup": "g", **dead}, stream=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"onBadRecord": "lose"}, "quarantine, dead_letter, skip, stop"),
        ({"onBadRecord": "skip", "includeBadRecord": "true"}, "bad_record, which is asked for"),
        ({"onBadRecord": "stop", "columns": "bad_record,body"}, "bad_record, which is asked for"),
        ({"columns": "bad_record", "includeBadRecord": "false"}, "contradicts columns"),
        ({"columns": "badrecord"}, "there are .*bad_record"),
    ],
)
def test_rules_for_bad_records_that_make_no_sense_are_refused(
    given: dict[str, str], said: str
) -> None:
    assert re.search(said, str(refusal(given)))
