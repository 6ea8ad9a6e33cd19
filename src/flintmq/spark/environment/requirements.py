"""What has to be installed for Spark, said in a sentence where it is not."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Final

from flintmq.errors import InvalidSetting, MissingExtra

OLDEST: Final = (4, 2)
"""The first pyspark whose sources can limit a batch and read until now."""


def require_pyspark() -> None:
    """`MissingExtra` without pyspark or pyarrow, `InvalidSetting` when pyspark is too old."""
    try:
        import pyspark
    except ImportError:
        raise MissingExtra("pyspark", "spark") from None
    check_version(pyspark.__version__)
    if find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "spark")


def check_version(version: str) -> None:
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise InvalidSetting("pyspark", version, f"pyspark {needed} or newer is needed")
