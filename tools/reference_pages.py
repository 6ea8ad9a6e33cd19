"""The reference pages for Spark options, errors and settings, written from the code itself.

python tools/reference_pages.py            says which pages are not as the code is; exit code 1
python tools/reference_pages.py --write    writes them
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import Any, Final

import reference_metrics
import reference_rights
import reference_settings as texts
from flintmq import errors
from flintmq.arrow.schema import KAFKA_COLUMNS, Form, Properties, Shape
from flintmq.broker.config.config_file import (
    ELSEWHERE,
    ONLY,
    SETTINGS,
    BrokerSettings,
    settings_texts,
)
from flintmq.client.engine.client_config import ClientConfig, ClientSettings
from flintmq.client.producer.producer_settings import ProducerConfig, ProducerSettings
from flintmq.client.pull.pull_settings import (
    LiteConfig,
    LitePullSettings,
    PullConfig,
    PullConsumerSettings,
    ScheduledPullSettings,
)
from flintmq.client.pull.scheduled_pull import THREADS
from flintmq.client.push.push_settings import PushConfig, PushSettings
from flintmq.client.simple.simple_settings import SimpleConfig, SimpleConsumerSettings
from flintmq.core.group import consumer_settings
from flintmq.core.pull import lite_settings
from flintmq.nameserver import config as nameserver
from flintmq.protocol.bodies.java_properties import read_properties
from flintmq.spark.options.connection_options import ACCESS
from flintmq.spark.options.option_table import Option, OptionTable, duration_ms
from flintmq.spark.options.sink_options import SINK_OPTIONS, _timeout_ms
from flintmq.spark.options.source_table import SOURCE
from flintmq.spark.options.spark_schema import spark_schema
from reference_errors import ERRORS

REFERENCE: Final = Path(__file__).parents[1] / "docs" / "reference"

WRITTEN: Final = (
    "This page is generated from the code by `python tools/reference_pages.py --write`; a test "
    "checks that it is up to date."
)

SPARK_INTRO: Final = (
    "\n"
    "Names are matched whatever their case. An option that does not exist, a value that "
    "cannot be used and options that contradict each other are `InvalidSetting`, which says "
    "what is allowed and, for a name, the nearest one there is. [The Spark guide]"
    "(../spark.md) says when to use which.\n"
)
ERRORS_INTRO: Final = (
    "\nEvery exception that FlintMQ raises on purpose is in `flintmq.errors`. Nobody has to "
    "read its text: what went wrong is in its fields, and `retriable` says whether the same "
    "call may succeed later. A wrong argument is answered where it is given: by `InvalidSetting`, "
    "`InvalidMessage`, `InvalidName` or `InvalidExpression`.\n\n"
    "On Spark an error of a query reaches your program as an exception of pyspark, with the text "
    "of ours in it: `AnalysisException` while a query is planned, `PythonException` of a batch "
    "query and `StreamingQueryException` of a stream while it runs. All three are "
    "`pyspark.errors.PySparkException`. Functions of `flintmq.spark` raise ours where no query "
    "runs yet. [The Spark guide](../spark.md#what-errors-look-like) shows how to find our text. "
    "Our errors survive pickling.\n"
)
ERRORS_END: Final = (
    "The command line prints the text of an error without a traceback and ends with an exit "
    "code; see [the command line](cli.md)."
)
SETTINGS_INTRO: Final = (
    "\nClients take their settings as keyword arguments. One that does not exist is "
    "`InvalidSetting` and names the nearest that does, also for a setting of RocketMQ's Java "
    "clients (`consumeThreadMin`); one out of range says the range. "
    "Defaults are RocketMQ's unless [compatibility](../compatibility.md) says otherwise.\n"
)
CLIENTS: Final = (
    "`Producer`, `TransactionProducer`, `PushConsumer`, `PullConsumer`, `LitePullConsumer`, "
    "`ScheduledPull`, `Admin` and `App`.\n"
)


def cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    names = list(head)
    yield f"| {' | '.join(names)} |"
    yield "|" + "---|" * len(names)
    for row in rows:
        yield f"| {' | '.join(map(cell, row))} |"
    yield ""


def code(text: object) -> str:
    return f"`{text}`"


# Spark options


def spark_options_page() -> str:
    lines = [
        "# Options of the Spark source and sink\n",
        WRITTEN,
        SPARK_INTRO,
        "## Where the cluster is: source and sink\n",
        *_options(ACCESS),
        "With any option of TLS but `tls=false`, TLS is on.\n",
        "## The source\n",
        *_options(option for option in SOURCE if option not in ACCESS),
        "### Its columns\n",
        "Without `columns` all but the last two; with `schema=kafka` those of the Kafka source.\n",
        "`bad_record` is there with `includeBadRecord`, or where `columns` names it.\n",
        *_columns(Shape(properties=Properties.MAP, bad_record=True)),
        "`schema=kafka`:\n",
        *_columns(Shape(KAFKA_COLUMNS, Form.KAFKA, bad_record=True)),
        "### Options of Kafka's source that are other ones here\n",
        *_instead(SOURCE),
        "## The sink\n",
        *_options(option for option in SINK_OPTIONS if option not in ACCESS),
        "### Options that are other ones here\n",
        *_instead(SINK_OPTIONS),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _options(options: Iterable[Option[Any]]) -> Iterator[str]:
    rows = ((code(each.name), each.takes, _option_default(each), each.about) for each in options)
    yield from table(("option", "value", "default", "meaning"), rows)


def _option_default(option: Option[Any]) -> str:
    value = option.default
    if value is None or value in ((), ""):
        return ""
    if isinstance(value, bool):
        return code(str(value).lower())
    if option.parse in (duration_ms, _timeout_ms):
        return code(f"{value // 1_000}s")
    return code(value)


def _columns(shape: Shape) -> Iterator[str]:
    rows = ((code(each.name), code(each.dataType.simpleString())) for each in spark_schema(shape))
    yield from table(("column", "type"), rows)


def _instead(options: OptionTable) -> Iterator[str]:
    rows = (
        (code(name + "…" if name.endswith(".") else name), hint)
        for name, hint in options.instead.items()
    )
    yield from table(("option", "here"), rows)


# Errors


def error_classes() -> dict[str, type[errors.FlintError]]:
    """Every error, in the order of the module."""
    return {
        name: each
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, errors.FlintError)
    }


def errors_page() -> str:
    tree = inspect.cleandoc(errors.__doc__ or "").partition("FlintError\n")[2].partition("\n\n")[0]
    rows = (
        (
            code(name),
            ", ".join(map(code, _fields(each))),
            "yes" if each.retriable else "",
            ERRORS[name].when,
            ERRORS[name].do,
        )
        for name, each in error_classes().items()
    )
    lines = [
        "# Errors\n",
        WRITTEN,
        ERRORS_INTRO,
        f"```\nFlintError\n{inspect.cleandoc(tree)}\n```\n",
        *table(("error", "fields", "retriable", "when", "what to do"), rows),
        ERRORS_END,
    ]
    return "\n".join(lines).rstrip() + "\n"


def _fields(error: type[errors.FlintError]) -> list[str]:
    if "__init__" not in vars(error):
        return []
    return [name for name in inspect.signature(error.__init__).parameters if name != "self"]


# Settings


def configuration_page() -> str:
    push = consumer_settings._RANGES
    pull = lite_settings._RANGES
    lines = [
        "# Configuration\n",
        WRITTEN,
        SETTINGS_INTRO,
        "## Every client\n",
        CLIENTS,
        *_settings(KINDS["client"], ClientConfig, texts.CLIENT),
        "## Producers\n",
        *_settings(KINDS["producer"], ProducerConfig, texts.PRODUCER),
        "## Push consumers and apps\n",
        *_settings(KINDS["push"], PushConfig, texts.PUSH, push),
        "## Simple consumers\n",
        *_settings(KINDS["simple"], SimpleConfig, texts.SIMPLE),
        "## Pull consumers\n",
        "`PullConsumer`, `LitePullConsumer` and `ScheduledPull`.\n",
        *_settings(KINDS["pull"], PullConfig, texts.PULL, pull),
        "`LitePullConsumer` also takes:\n",
        *_settings(KINDS["lite"], LiteConfig, texts.LITE, pull),
        "`ScheduledPull` also takes:\n",
        *table(
            ("setting", "type", "default", "bounds", "meaning"),
            [
                (
                    code("threads"),
                    code("int"),
                    code(THREADS),
                    "1 to 1000",
                    texts.SCHEDULED["threads"],
                )
            ],
        ),
        *_broker(),
        *_name_server(),
    ]
    return "\n".join(lines).rstrip() + "\n"


def own_settings(settings: Any, parent: Any = None) -> dict[str, str]:
    """The settings of one kind, without those of its parent, and their types as written."""
    inherited = {} if parent is None else parent.__annotations__
    return {
        name: kind.__forward_arg__
        for name, kind in settings.__annotations__.items()
        if name not in inherited and not name.startswith("_")
    }


KINDS: Final = {
    "client": own_settings(ClientSettings),
    "producer": own_settings(ProducerSettings, ClientSettings),
    "push": own_settings(PushSettings, ClientSettings),
    "simple": own_settings(SimpleConsumerSettings, ClientSettings),
    "pull": own_settings(PullConsumerSettings, ClientSettings),
    "lite": own_settings(LitePullSettings, PullConsumerSettings),
    "scheduled": own_settings(ScheduledPullSettings, PullConsumerSettings),
}


def _settings(
    own: Mapping[str, str],
    config: Any,
    meanings: Mapping[str, str],
    bounds: Mapping[str, tuple[int, int]] | None = None,
) -> Iterator[str]:
    defaults = {each.name: each.default for each in fields(config)}
    rows = []
    for name, kind in own.items():
        known = () if bounds is None else (_bounds(bounds.get(name)),)
        rows.append((code(name), code(kind), _default(defaults[name]), *known, meanings[name]))
    limits = () if bounds is None else ("bounds",)
    yield from table(("setting", "type", "default", *limits, "meaning"), rows)


def _default(value: object) -> str:
    if value is None or value is MISSING or value in ((), ""):
        return ""
    if inspect.isfunction(value):
        return code(value.__name__)
    if isinstance(value, Enum):
        return code(value.name)
    if isinstance(value, str):
        return code(value)
    if isinstance(value, bool | int):
        return code(f"{value:_}" if type(value) is int and value >= 10_000 else value)
    return ""


def _bounds(bounds: tuple[int, int] | None) -> str:
    return "" if bounds is None else f"{bounds[0]} to {bounds[1]}"


def _broker() -> Iterator[str]:
    shown = settings_texts(BrokerSettings())
    rows = (
        (code(key), code(shown[key]) if key in shown else "", _live(setting), texts.BROKER[key])
        for key, setting in SETTINGS.items()
    )
    yield "## broker.conf\n"
    yield (
        "For `flintmq serve --config` and `flintmq broker --config`. Keys marked live can be "
        "changed while the broker runs, with `mqadmin updateBrokerConfig`.\n"
    )
    yield from table(("key", "default", "live", "meaning"), rows)
    yield "Taken with these values and no others:\n"
    yield from table(
        ("key", "value"), ((code(key), " or ".join(map(code, ONLY[key]))) for key in ONLY)
    )
    yield "Taken only as folders of `storePathRootDir`:\n"
    yield from table(("key", "folder"), ((code(key), code(ELSEWHERE[key])) for key in ELSEWHERE))


def _name_server() -> Iterator[str]:
    config = nameserver.NameServerConfig()
    shown = read_properties(nameserver.config_text(config, config.listen))
    rows = (
        (
            code(key),
            code(shown[key]) if key in shown else "",
            _live(nameserver.SETTINGS.get(key)),
            meaning,
        )
        for key, meaning in texts.NAME_SERVER.items()
    )
    yield "## namesrv.conf\n"
    yield "For `flintmq namesrv --config`.\n"
    yield from table(("key", "default", "live", "meaning"), rows)
    yield "Taken with this value and no other:\n"
    yield from table(
        ("key", "value"), ((code(key), code(text)) for key, (text,) in nameserver.ONLY.items())
    )


def _live(setting: Any) -> str:
    return "live" if setting is not None and setting.live else ""


def rights_page() -> str:
    return "\n".join(
        ("# Rights", "", WRITTEN, reference_rights.INTRO, *reference_rights.rows(), "")
    )


def metrics_page() -> str:
    return "\n".join(("# Metrics", "", WRITTEN, reference_metrics.INTRO, *reference_metrics.rows()))


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "spark-options.md": spark_options_page,
    "errors.md": errors_page,
    "configuration.md": configuration_page,
    "rights.md": rights_page,
    "metrics.md": metrics_page,
}


def main(arguments: list[str]) -> int:
    is_right = True
    for name, page in PAGES.items():
        path = REFERENCE / name
        if "--write" in arguments:
            path.write_text(page(), encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != page():
            print(f"{name} is not as the code is; write it: tools/reference_pages.py --write")
            is_right = False
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
