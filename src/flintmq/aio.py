"""The names of `flintmq` for programs on asyncio: the same classes and methods, awaited.

    from flintmq.aio import Producer
    from flintmq import Message

    async with Producer("shop", namesrv="127.0.0.1:9876") as producer:
        await producer.send(Message("orders", b"…"))

Calls are awaited, except those that only read or note something in memory: ``events``, and what
declares topics, queues and listeners.  docs/guides/asyncio.md lists them.

What is imported from here is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flintmq.client.admin_aio import Admin
    from flintmq.client.producer.producer import Producer
    from flintmq.client.producer.transaction_producer import TransactionProducer
    from flintmq.client.pull.lite_pull_consumer import LitePullConsumer
    from flintmq.client.pull.pull_consumer import PullConsumer
    from flintmq.client.pull.scheduled_pull import ScheduledPull
    from flintmq.client.push.push_consumer import PushConsumer
    from flintmq.client.simple.simple_consumer import SimpleConsumer

__all__ = [
    "Admin",
    "LitePullConsumer",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "ScheduledPull",
    "SimpleConsumer",
    "TransactionProducer",
]

_WHERE = {
    "Admin": "flintmq.client.admin_aio",
    "LitePullConsumer": "flintmq.client.pull.lite_pull_consumer",
    "Producer": "flintmq.client.producer.producer",
    "PullConsumer": "flintmq.client.pull.pull_consumer",
    "PushConsumer": "flintmq.client.push.push_consumer",
    "ScheduledPull": "flintmq.client.pull.scheduled_pull",
    "SimpleConsumer": "flintmq.client.simple.simple_consumer",
    "TransactionProducer": "flintmq.client.producer.transaction_producer",
}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
