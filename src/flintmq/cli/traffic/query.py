"""`flintmq query`: SQL on topics, by DuckDB in this process.

    parse ► which topics it names ► `flintmq.arrow.read_topic` each ► run ► table, JSON or CSV

Each topic is read once, from a start to an end that is fixed when it begins, into memory; the
limits are those of the read.  Refused: statements other than one SELECT, and files or addresses in
it, since DuckDB is not allowed to leave this process.  Exit codes are those of `output`.
"""

from __future__ import annotations

import csv
import json
import sys
from base64 import b64encode
from collections.abc import Iterator
from datetime import date, datetime, time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.offset_argument import PLACES_HELP, parse_target
from flintmq.cli.shared.options import Tags
from flintmq.cli.shared.output import Output, OutputOption, print_json, say
from flintmq.cli.shared.tables import Wrapped, print_table
from flintmq.client.engine.client_config import ClientSettings
from flintmq.core.admin.spans import ToEnd, ToOffset, ToStart, ToTime
from flintmq.errors import InvalidSetting, MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa

EXTRA: Final = "query"

ROWS_MAX: Final = 1_000_000
"""Messages of one topic that are read unless told otherwise; read_topic also limits the bytes."""

SHOWN_MAX: Final = 1_000
"""Rows of a result on the screen; JSON and CSV have all."""


@connected
def query(
    settings: ClientSettings,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT; topics are its tables.")],
    start: Annotated[
        str,
        typer.Option("--from", metavar="start|TIME", help=f"Where to begin; {PLACES_HELP}."),
    ] = "start",
    stop: Annotated[
        str, typer.Option("--to", metavar="end|TIME", help="Where to end; end is now.")
    ] = "end",
    tag: Tags = None,
    most: Annotated[
        int,
        typer.Option("--max", metavar="MESSAGES", min=1, help="Refuse a topic with more of them."),
    ] = ROWS_MAX,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run SQL on topics, with DuckDB: every topic is a table of its messages.

    The columns are topic, broker, queue_id, queue_offset, message_id, tags, keys, body, born_time,
    store_time, properties and more: SELECT * FROM orders LIMIT 1 shows them. A body is bytes:
    decode(body) is its text. Names with - or % need double quotes. It needs
    pip install 'flintmq[query]'.

    Examples:
        flintmq query "SELECT tags, count(*) FROM orders GROUP BY 1"
        flintmq query "SELECT decode(body) FROM orders WHERE tags = 'paid'" --from 1h --csv
    """
    if as_csv and output is Output.JSON:
        raise InvalidSetting("csv", "--json", "give one of them")
    for package in ("duckdb", "pyarrow"):
        if find_spec(package) is None:
            raise MissingExtra(package, EXTRA)
    import duckdb

    with duckdb.connect() as database:
        tables = _tables_of(database, sql)
        for table in tables:
            database.register(table, _read(settings, table, start, stop, tag, most))
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        try:
            result = database.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise InvalidSetting("sql", sql, _sentence(error)) from None
    _print(result, output, as_csv=as_csv)


def _read(
    settings: ClientSettings, topic: str, start: str, stop: str, tag: str | None, most: int
) -> pa.Table:
    from flintmq.arrow import read_topic

    return read_topic(
        topic,
        start=_moment("from", start),
        end=_moment("to", stop),
        tags=tag,
        max_rows=most,
        namesrv=settings.get("namesrv"),
        access_key=settings.get("access_key"),
        secret_key=settings.get("secret_key"),
        tls=settings.get("tls", False),
    )


def _moment(setting: str, text: str) -> str | int:
    match parse_target(text):
        case ToStart():
            return "earliest"
        case ToEnd():
            return "latest"
        case ToTime(time_ms):
            return time_ms
        case ToOffset():
            raise InvalidSetting(setting, text, "give start, end or a time")


def _tables_of(database: Any, sql: str) -> list[str]:
    """The topics that a statement reads; `InvalidSetting` unless it is one SELECT."""
    ((text,),) = database.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    parsed = json.loads(text)
    if parsed["error"]:
        reason = str(parsed["error_message"])
        raise InvalidSetting("sql", sql, "only SELECT is run" if "SELECT" in reason else reason)
    if len(parsed["statements"]) != 1:
        raise InvalidSetting("sql", sql, "give one statement")
    named = {name for kind, name in _names(parsed) if kind == "table"}
    return sorted(named - {name for kind, name in _names(parsed) if kind == "with"})


def _names(node: object) -> Iterator[tuple[str, str]]:
    """Every table that is named, and every name that WITH defines."""
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            yield "table", node["table_name"]
        if "cte_map" in node:
            yield from (("with", each["key"]) for each in node["cte_map"].get("map", ()))
        for value in node.values():
            yield from _names(value)
    elif isinstance(node, list):
        for value in node:
            yield from _names(value)


def _sentence(error: Exception) -> str:
    """The first line of what DuckDB says; the others point into the statement."""
    return str(error).partition("\n")[0]


def _print(result: pa.Table, output: Output, *, as_csv: bool) -> None:
    if output is Output.JSON:
        print_json([{name: _plain(v) for name, v in row.items()} for row in result.to_pylist()])
        return
    columns = [column.to_pylist() for column in result.columns]
    rows = ([_plain(value) for value in row] for row in zip(*columns, strict=True))
    if as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(result.column_names)
        writer.writerows(rows)
        return
    shown = [row for row, _ in zip(rows, range(SHOWN_MAX), strict=False)]
    print_table([Wrapped(name) for name in result.column_names], map(_cells, shown))
    if result.num_rows > SHOWN_MAX:
        say(f"{result.num_rows:,} rows; --json and --csv print all")


def _cells(row: list[object]) -> list[object]:
    return [json.dumps(cell) if isinstance(cell, dict | list) else cell for cell in row]


def _plain(value: object) -> object:
    """A value that JSON has: bytes as text, or in base64 where they are none; times in ISO 8601."""
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() if value and all(isinstance(each, tuple) and len(each) == 2 for each in value):
            return {str(name): _plain(each) for name, each in value}  # a map of Arrow
        case list():
            return [_plain(each) for each in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
