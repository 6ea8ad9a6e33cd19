"""FlintMQ: Apache RocketMQ's protocol, store and consumers in Python, and its topics on Spark.

The package logs under ``flintmq.…`` with the standard library and leaves handlers,
levels and files to the program that uses it.
"""

from __future__ import annotations

import logging

__version__ = "0.1.0"

logging.getLogger("flintmq").addHandler(logging.NullHandler())
