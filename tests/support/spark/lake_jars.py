"""The jars of Delta and Iceberg for the Spark of this environment, fetched with Maven.

Spark would fetch them by itself (``spark.jars.packages``), but not through the mirror that Maven
is set to on this machine.  What Spark has itself is left out, as Spark does it too.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyspark
import pytest

from flintmq.errors import InvalidSetting
from flintmq.spark.pipelines.lake_formats import LakeFormat, package_for
from support.interop.jvm import fetched, missing_tools

_VERSION = re.compile(r"-\d.*\.jar")


def lake_jars(kind: LakeFormat) -> str:
    """The value of ``spark.jars``; skips where the format or Maven is not to be had."""
    if kind is LakeFormat.PARQUET:
        return ""
    try:
        package = package_for(kind)
    except InvalidSetting as error:
        pytest.skip(str(error))
    if reason := missing_tools("java", "mvn"):
        pytest.skip(reason)
    group, artifact, version = package.split(":")
    there = fetched(f"{artifact}-{version}", [(group, artifact, version)])
    home = Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0])
    own = {_VERSION.sub("", path.name) for path in (home / "jars").glob("*.jar")}
    wanted = [path for path in there.glob("*.jar") if _VERSION.sub("", path.name) not in own]
    return ",".join(map(str, sorted(wanted)))
