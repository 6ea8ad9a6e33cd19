"""What has to be installed for Spark, said in a sentence where it is not.

3.5         `read` and `for_each_batch`
4.0, 4.1    also the format ``rocketmq``: batches, streams that step by themselves, the sink
4.2         also limits with Trigger.AvailableNow
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Final

from flintmq.errors import InvalidSetting, MissingExtra

Version = tuple[int, int]

OLDEST: Final[Version] = (3, 5)
"""The first pyspark that runs with Python 3.11 and today's pyarrow."""

SOURCES_SINCE: Final[Version] = (4, 0)
"""The first pyspark whose sources and sinks can be written in Python."""

READ_LIMITS_SINCE: Final[Version] = (4, 2)
"""The first pyspark that asks a source for its limits, and has it prepare AvailableNow."""


def require_pyspark(oldest: Version = SOURCES_SINCE, what: str = "this") -> None:
    """`MissingExtra` without pyspark or pyarrow, `InvalidSetting` when pyspark is too old."""
    try:
        import pyspark
    except ImportError:
        raise MissingExtra("pyspark", "spark") from None
    check_version(pyspark.__version__, oldest, what)
    if find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "spark")


def check_version(version: str, oldest: Version = SOURCES_SINCE, what: str = "this") -> None:
    """`InvalidSetting` when this version of pyspark is older than ``what`` needs."""
    found = parsed(version)
    if found < oldest:
        reason = f"pyspark {version_text(oldest)} or newer is needed for {what}"
        if OLDEST <= found < SOURCES_SINCE:
            reason += "; flintmq.spark.read and for_each_batch work with this one"
        raise InvalidSetting("pyspark", version, reason)


def pyspark_version() -> Version:
    """The version of the installed pyspark, which has to be there."""
    import pyspark

    return parsed(pyspark.__version__)


def has_read_limits() -> bool:
    """Whether Spark asks sources for their limits."""
    return pyspark_version() >= READ_LIMITS_SINCE


def require_read_limits(setting: str) -> None:
    """`InvalidSetting` where a query that reads what is there now would end too early."""
    if not has_read_limits():
        newer = version_text(READ_LIMITS_SINCE)
        reason = f"pyspark {newer} or newer is needed: older ones end after one micro-batch"
        raise InvalidSetting(setting, "True", reason)


def parsed(version: str) -> Version:
    """The first two numbers of a version; zeros where there are none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (0, 0) if found is None else (int(found[1]), int(found[2]))


def version_text(version: Version) -> str:
    return ".".join(map(str, version))
