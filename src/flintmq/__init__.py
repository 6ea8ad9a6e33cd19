"""FlintMQ: Apache RocketMQ's protocol, store and consumers in Python, and its topics on Spark.

What is imported from here is loaded when it is first used: importing the package alone loads
neither a broker nor anything else heavy.

The package logs under ``flintmq.…`` with the standard library and leaves handlers,
levels and files to the program that uses it.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flintmq.embedded.broker import EmbeddedBroker

__version__ = "0.1.0"

__all__ = ["EmbeddedBroker", "__version__"]

_WHERE = {"EmbeddedBroker": "flintmq.embedded.broker"}

logging.getLogger("flintmq").addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
