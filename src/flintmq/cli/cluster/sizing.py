"""`flintmq sizing`: how much disk and memory a load needs.  It asks no cluster.

The formulas are those of `store.capacity`, from the layout of the files.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Annotated

import typer

from flintmq.cli.shared.output import (
    USAGE_ERROR,
    Output,
    OutputOption,
    exit_with,
    print_json,
    print_line,
    with_json,
)
from flintmq.cli.shared.tables import print_table
from flintmq.errors import InvalidSetting
from flintmq.reports.amounts import size_text

RATE_MAX = 10_000_000
"""Messages a second of one broker; more is a slip of the hand."""

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kKmM]?)(?:i?[bB])?")
_UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}


@with_json
def sizing(
    rate: Annotated[
        float,
        typer.Option("--rate", "-r", help="Messages a second, sent to one broker.", min=0.001),
    ] = 1_000,
    size: Annotated[
        str, typer.Option("--size", "-s", metavar="BYTES", help="A body, as 900, 2k or 1m.")
    ] = "1k",
    retention: Annotated[
        float, typer.Option("--retention", help="Hours that messages are kept.", min=0)
    ] = 72,
    replicas: Annotated[
        int, typer.Option("--replicas", help="Copies: a master and its slaves.", min=1, max=64)
    ] = 1,
    queues: Annotated[int, typer.Option("--queues", help="Queues of all topics.", min=1)] = 8,
    keys: Annotated[int, typer.Option("--keys", help="Keys of a message.", min=0, max=100)] = 1,
    properties: Annotated[
        int, typer.Option("--properties", help="Bytes of a message's own properties.", min=0)
    ] = 0,
    hot: Annotated[
        float,
        typer.Option("--hot", help="Seconds that consumers may be behind and read memory.", min=0),
    ] = 300,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compute disk, files and memory for a load, from the layout of RocketMQ's files.

    Files are deleted whole and once a day, and early when the disk is 75 % full; the disk to buy
    counts both.

    Examples:
        flintmq sizing --rate 1000 --size 2k --retention 72 --replicas 2
    """
    from flintmq.store.capacity import Load, capacity

    if rate > RATE_MAX:
        exit_with(f"--rate {rate:g}: at most {RATE_MAX:,} messages a second", USAGE_ERROR)
    try:
        body_bytes = _parse_size(size)
    except InvalidSetting as error:
        exit_with(str(error), USAGE_ERROR)
    load = Load(
        messages_per_s=rate,
        body_bytes=body_bytes,
        keys=keys,
        property_bytes=properties,
        queues=queues,
        retention_hours=retention,
        replicas=replicas,
        hot_s=hot,
    )
    need = capacity(load)
    if output is Output.JSON:
        print_json({"load": asdict(load), "need": asdict(need)})
        return
    rows = (
        ("one message in the log", size_text(need.record_bytes), f"body {size_text(body_bytes)}"),
        ("written a second", size_text(need.written_bytes_per_s), "log, queues and key index"),
        ("messages held", f"{need.held_messages:,}", f"up to {need.held_hours:.1f} hours"),
        ("commit log", size_text(need.log_bytes), f"{need.log_files:,} files"),
        ("consume queues", size_text(need.queue_bytes), f"{need.queue_files:,} files"),
        ("key index", size_text(need.index_bytes), f"{need.index_files:,} files"),
        ("disk of a broker", size_text(need.disk_bytes), "at most 75 % full"),
        ("disk of all copies", size_text(need.disk_bytes_of_all), f"{replicas} x"),
        ("page cache", size_text(need.page_cache_bytes), f"the last {hot:g} seconds"),
        ("memory of a broker", size_text(need.memory_bytes), "the log's end is 40 % of it"),
    )
    print_table(("what", "amount", "note"), rows)
    print_line("These are sizes of files. Rates depend on the disk: flintmq perf measures them.")


def _parse_size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidSetting("size", text, "give bytes, as 900, 2k or 1m")
    return round(float(found[1]) * _UNITS[found[2].lower()])
