"""The source is found by its name, needs a pyspark that is new enough, and loads late."""

from __future__ import annotations

import subprocess
import sys

import pytest

import flintmq.spark
from flintmq.errors import InvalidSetting, MissingExtra
from flintmq.spark.environment import requirements as needs
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.source.batch_read import PUSHING_MODULE, BatchReader, PushingReader, batch_reader
from flintmq.spark.source.data_source import RocketMQDataSource
from flintmq.spark.source.stream import StreamReader
from flintmq.spark.versions.stepping_reader import SteppingReader

OPTIONS = {"namesrv": "127.0.0.1:1", "subscribe": "orders"}


def test_spark_finds_it_by_the_name_of_a_module() -> None:
    import pyspark_rocketmq

    assert pyspark_rocketmq.DefaultSource is RocketMQDataSource
    assert RocketMQDataSource.name() == "rocketmq"


def test_looking_for_sources_loads_next_to_nothing() -> None:
    code = "import pyspark_rocketmq, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not set(done.stdout.split()) & {
        "lark",
        "flintmq.client.engine.client_engine",
        "flintmq.arrow.columns",
    }


@pytest.mark.parametrize("version", ["3.5.9", "3.3.0", "nonsense"])
def test_an_old_pyspark_is_told_what_is_needed(version: str) -> None:
    with pytest.raises(InvalidSetting, match=r"pyspark 4\.0 or newer is needed for the sink"):
        needs.check_version(version, what="the sink")


def test_what_works_without_sources_is_said_to_those_who_have_none() -> None:
    with pytest.raises(InvalidSetting, match="for_each_batch work with this one"):
        needs.check_version("3.5.9")
    needs.check_version("3.5.9", needs.OLDEST)


@pytest.mark.parametrize("version", ["4.0.0", "4.1.4", "4.3.0", "4.10.0.dev1", "5.0.0"])
def test_a_new_pyspark_will_do(version: str) -> None:
    needs.check_version(version)


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "find_spec", lambda _name: None)

    with pytest.raises(MissingExtra, match="pyarrow"):
        RocketMQDataSource(OPTIONS)


@pytest.mark.parametrize("option", ["maxOffsetsPerTrigger", "maxBytesPerTrigger"])
def test_a_limit_on_an_older_spark_needs_to_know_the_trigger(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = {**OPTIONS, option: "5"}
    monkeypatch.setattr("pyspark.__version__", "4.1.4")

    with pytest.raises(InvalidSetting, match=r"trigger=interval .* pyspark 4\.2") as refused:
        RocketMQDataSource(limited).schema()
    source = RocketMQDataSource({**limited, "trigger": "interval"})
    with pytest.raises(InvalidSetting, match="trigger"):
        RocketMQDataSource({**limited, "trigger": "once"}).schema()

    assert option in str(refused.value)
    assert type(source.streamReader(source.schema())) is SteppingReader
    assert source.schema() == RocketMQDataSource(OPTIONS).schema()


def test_options_of_a_batch_and_of_a_stream_both_have_a_schema() -> None:
    batch = RocketMQDataSource({**OPTIONS, "endingOffsets": "latest", "columns": "body"})
    stream = RocketMQDataSource({**OPTIONS, "maxOffsetsPerTrigger": "5", "columns": "body"})

    assert batch.schema() == stream.schema()
    assert batch.schema().fieldNames() == ["body"]
    with pytest.raises(InvalidSetting):
        RocketMQDataSource({**OPTIONS, "subscrbe": "x"}).schema()


def test_filters_are_taken_only_where_spark_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    options = SourceOptions.parse(OPTIONS, stream=False)

    elsewhere = batch_reader(options)
    monkeypatch.setitem(sys.modules, PUSHING_MODULE, sys)
    there = batch_reader(options)

    assert type(elsewhere) is BatchReader
    assert type(there) is PushingReader


def test_a_reader_of_a_stream_travels_without_what_it_opened() -> None:
    reader = StreamReader(SourceOptions.parse(OPTIONS, stream=True))
    reader._opened = object()  # type: ignore[assignment]

    assert reader.__getstate__()["_opened"] is None


def test_the_package_gives_its_names_late() -> None:
    from flintmq.spark.listeners.listener_run import run
    from flintmq.spark.session import spark_session

    assert flintmq.spark.run is run
    assert flintmq.spark.spark_session is spark_session
    with pytest.raises(AttributeError, match="nothing_such"):
        flintmq.spark.nothing_such  # noqa: B018
