"""Small files of a lake written together: `compact`.

    delta     OPTIMIZE
    iceberg   rewrite_data_files
    parquet   the small files of a partition as few large ones, then one log that names those

A lake in Parquet has to be on a local disk and free of queries, which its lock proves; queries
that read it meanwhile may miss a file.  It is compacted in steps, each of which can be the last:

    _compacting           says which log will be the new one
    large files           not counted yet
    _spark_metadata/N.compact     from here on the large files count, and the small ones do not
    small files and older logs are deleted, _compacting too

What a crash leaves is finished or swept at the next start (`LakeDirectory.sweep`).
"""

from __future__ import annotations

import json
import math
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlparse

from pyspark.sql import SparkSession

from flintmq.errors import InvalidSetting
from flintmq.spark.pipelines.lake_directory import COMPACTING, METADATA, LakeDirectory
from flintmq.spark.pipelines.lake_formats import LakeFormat, LakeTable, require_format

TARGET_BYTES: Final = 128 * 1024 * 1024
"""What a file is to have: as much as Spark reads in one task."""

UNQUOTED: Final = "/=!$&'()*+,;:@~"
"""What Hadoop leaves as it is in the path of a file."""

LOG_VERSION: Final = "v1"
"""Of Spark's log of files."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Files that were written together, and those they became."""

    files_before: int
    files_after: int


def compact(spark: SparkSession, to: str, *, target_bytes: int = TARGET_BYTES) -> Compacted:
    """Write the small files of a lake together.  No query may write to one in Parquet."""
    if target_bytes < 1:
        raise InvalidSetting("target_bytes", str(target_bytes), "give a size above 0")
    place = LakeDirectory(spark, to, None)
    kind = place.kind
    if kind is None:
        raise InvalidSetting("to", place.name, "is no lake")
    require_format(spark, kind)
    table = LakeTable(spark, kind, place.uri)
    if kind is LakeFormat.DELTA:
        spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(target_bytes))
        (row,) = spark.sql(f"OPTIMIZE delta.`{place.uri}`").collect()
        return Compacted(row.metrics.numFilesRemoved, row.metrics.numFilesAdded)
    if kind is LakeFormat.ICEBERG:
        catalog, _, name = table.name.partition(".")
        chosen = f"map('min-input-files', '2', 'target-file-size-bytes', '{target_bytes}')"
        call = f"CALL {catalog}.system.rewrite_data_files(table => '{name}', options => {chosen})"
        (row,) = spark.sql(call).collect()
        return Compacted(row.rewritten_data_files_count, row.added_data_files_count)
    return _compact_parquet(spark, place, target_bytes)


def _compact_parquet(spark: SparkSession, place: LakeDirectory, target_bytes: int) -> Compacted:
    lock = place.lock()
    if lock is None or place.local is None:
        reason = "Parquet is compacted on local disks alone: Delta and Iceberg can be anywhere"
        raise InvalidSetting("to", place.name, reason)
    root = place.local
    with lock:
        place.sweep()
        newest = place.newest_log()
        counted = [_path(each) for each in place.counted_files()]
        small = _small(counted, target_bytes)
        if not small:
            return Compacted(0, 0)
        (root / COMPACTING).write_text(str(newest))
        made: list[Path] = []
        staging = root / f"_compact-{uuid.uuid4().hex}"
        try:
            for folder, files in small.items():
                made += _together(spark, files, folder, staging, target_bytes)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        replaced = {path for files in small.values() for path in files}
        kept = [path for path in counted if path not in replaced]
        _write_log(root / METADATA, newest, [*kept, *made])
        place.sweep()
    return Compacted(len(replaced), len(made))


def _small(counted: Iterable[Path], target_bytes: int) -> dict[Path, list[Path]]:
    """Files of each partition below half of the target, where there are two or more."""
    found: dict[Path, list[Path]] = defaultdict(list)
    for path in counted:
        if path.stat().st_size * 2 <= target_bytes:
            found[path.parent].append(path)
    return {folder: files for folder, files in found.items() if len(files) > 1}


def _together(
    spark: SparkSession, files: list[Path], folder: Path, staging: Path, target_bytes: int
) -> list[Path]:
    size_bytes = sum(path.stat().st_size for path in files)
    count = max(1, math.ceil(size_bytes / target_bytes))
    paths = [f"file:{path}" for path in files]
    rows: Any = spark.read.option("mergeSchema", "true").parquet(*paths)
    part = staging / str(len(list(staging.glob("*"))))
    rows.coalesce(count).write.parquet(f"file:{part}")
    made = []
    for path in sorted(part.glob("part-*.parquet")):
        made.append(folder / path.name)
        path.rename(made[-1])
    return made


def _write_log(logs: Path, number: int, files: Iterable[Path]) -> None:
    """The log of all files, in the form of Spark's; it counts once it has its name."""
    lines = [LOG_VERSION]
    for path in files:
        status = path.stat()
        entry = {
            "path": f"file://{quote(str(path), safe=UNQUOTED)}",
            "size": status.st_size,
            "isDir": False,
            "modificationTime": int(status.st_mtime * 1000),
            "blockReplication": 1,
            "blockSize": 32 * 1024 * 1024,
            "action": "add",
        }
        lines.append(json.dumps(entry, separators=(",", ":")))
    unfinished = logs / f".{number}.compact.tmp"
    unfinished.write_text("\n".join(lines), encoding="utf-8")
    unfinished.rename(logs / f"{number}.compact")


def _path(uri: str) -> Path:
    return Path(unquote(urlparse(uri).path))
