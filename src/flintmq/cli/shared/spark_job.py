"""What the commands that run a job on Spark have in common: its options, its session, its end.

Spark is loaded when a command runs and not before; what is wrong with names and addresses is found
before it starts.  Under spark-submit the session that is there is used, and is left to its owner.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from flintmq.cli.shared.output import exit_with
from flintmq.client.engine.client_config import ClientSettings
from flintmq.core.reading.time_text import parse_time
from flintmq.errors import FlintError
from flintmq.net.clock import wall_ms
from flintmq.net.tls import ClientTls
from flintmq.spark.environment import jvm_stderr

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Master",
    "MaybeMaster",
    "MoreOptions",
    "Out",
    "SparkConf",
    "Store",
    "Where",
    "source_options",
    "spark_for",
    "stopping",
]

SparkConf: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="NAME=VALUE",
        help="A setting of Spark; may be given several times.",
        show_default=False,
    ),
]

Master = Annotated[
    str,
    typer.Option(
        "--spark",
        "--master",
        metavar="MASTER",
        help="Where Spark runs, as local[*] or spark://HOST:PORT.",
    ),
]
HERE = "local[*]"

MaybeMaster = Annotated[
    str | None,
    typer.Option(
        "--spark",
        "--master",
        metavar="MASTER",
        help="Count on Spark, and where it runs, as local[*] or spark://HOST:PORT.",
        show_default=False,
    ),
]

Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="Read the store directory of a broker, and ask no cluster.",
        show_default=False,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out", metavar="DIR", help="Write tables and a picture there.", show_default=False
    ),
]
MoreOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the Spark source, as failOnDataLoss=false; may be given several times.",
        show_default=False,
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only those for which this condition of Spark SQL holds.",
        show_default=False,
    ),
]


def read_conf(texts: tuple[str, ...]) -> dict[str, str]:
    """``name=value`` pairs."""
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise typer.BadParameter(f"{name!r} is not NAME=VALUE")
    return {name: value for name, _, value in pairs}


def source_options(
    settings: ClientSettings,
    store: str | None = None,
    *,
    since: str | None = None,
    until: str | None = None,
    more: list[str] | None = None,
    **chosen: str | None,
) -> dict[str, str]:
    """The options of the source that say where to read, and others that are given.

    ``more`` are those that users spell out themselves.
    """
    options: dict[str, str | None] = {**read_conf(tuple(more or ())), **chosen}
    if since is not None:
        options["startingTimestamp"] = str(parse_time(since, wall_ms()))
    if until is not None:
        options["endingTimestamp"] = str(parse_time(until, wall_ms()))
    if store is not None:
        options["store"] = store
    else:
        options |= _connection(settings)
    return {name: value for name, value in options.items() if value is not None}


def _connection(settings: ClientSettings) -> dict[str, str | None]:
    tls = settings.get("tls", False)
    found = {
        "namesrv": settings.get("namesrv"),
        "accessKey": settings.get("access_key"),
        "secretKey": settings.get("secret_key"),
    }
    if isinstance(tls, ClientTls):
        found |= {
            "tlsCa": tls.ca_file,
            "tlsCertificate": tls.certificate_file,
            "tlsKey": tls.key_file,
        }
    elif tls:
        found["tls"] = "true"
    return found


@contextmanager
def spark_for(name: str, master: str, conf: list[str] | None) -> Iterator[SparkSession]:
    """The Spark session of one command.  Errors of Spark are printed as one sentence."""
    settings = read_conf(tuple(conf or ()))
    from flintmq.spark.environment.requirements import require_pyspark

    require_pyspark()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from flintmq.spark.source.preflight import sentence

    is_ours = SparkSession.getActiveSession() is None
    spark = quiet_session(name, master, settings)
    try:
        yield spark
    except FlintError:
        raise
    except PySparkException as error:
        exit_with(sentence(error))
    finally:
        if is_ours:
            spark.stop()
        jvm_stderr.drain()


def quiet_session(name: str, master: str, conf: Mapping[str, str]) -> SparkSession:
    """The session of a command; Java, log4j and py4j print nothing when it starts."""
    from flintmq.spark.session import is_given, spark_session

    if is_given():
        return spark_session(f"flintmq {name}", master, **conf)
    with jvm_stderr.without_noise():
        return spark_session(f"flintmq {name}", master, **{**jvm_stderr.QUIET_SETTINGS, **conf})


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Set when the command is asked to stop.  Asked once more, it ends at once."""
    told = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        told.set()

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
