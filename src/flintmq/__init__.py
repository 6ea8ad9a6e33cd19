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
    from flintmq.client.admin import Admin
    from flintmq.client.producer.threaded_producer import Producer, TransactionProducer
    from flintmq.client.pull.scheduled_pull import PullContext
    from flintmq.client.pull.threaded_pull import LitePullConsumer, PullConsumer
    from flintmq.client.pull.threaded_schedule import ScheduledPull
    from flintmq.client.push.threaded_push import PushConsumer
    from flintmq.client.run_app import App
    from flintmq.core.group.listener_results import Ack, DeadLetter, Retry
    from flintmq.core.producer.receipt import SendReceipt, SendStatus
    from flintmq.core.producer.transaction import TransactionReceipt, TransactionState
    from flintmq.core.pull.pull_result import PullResult, PullStatus
    from flintmq.embedded.broker import EmbeddedBroker
    from flintmq.model.group import ConsumeFromWhere, MessageModel
    from flintmq.model.message import Message, ReceivedMessage
    from flintmq.model.queue import QueueRef

__version__ = "0.1.0"

__all__ = [
    "Ack",
    "Admin",
    "App",
    "ConsumeFromWhere",
    "DeadLetter",
    "EmbeddedBroker",
    "LitePullConsumer",
    "Message",
    "MessageModel",
    "Producer",
    "PullConsumer",
    "PullContext",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "QueueRef",
    "ReceivedMessage",
    "Retry",
    "ScheduledPull",
    "SendReceipt",
    "SendStatus",
    "TransactionProducer",
    "TransactionReceipt",
    "TransactionState",
    "__version__",
]

_WHERE = {
    "Ack": "flintmq.core.group.listener_results",
    "Admin": "flintmq.client.admin",
    "App": "flintmq.client.run_app",
    "ConsumeFromWhere": "flintmq.model.group",
    "DeadLetter": "flintmq.core.group.listener_results",
    "EmbeddedBroker": "flintmq.embedded.broker",
    "LitePullConsumer": "flintmq.client.pull.threaded_pull",
    "Message": "flintmq.model.message",
    "MessageModel": "flintmq.model.group",
    "Producer": "flintmq.client.producer.threaded_producer",
    "PullConsumer": "flintmq.client.pull.threaded_pull",
    "PullContext": "flintmq.client.pull.scheduled_pull",
    "PullResult": "flintmq.core.pull.pull_result",
    "PullStatus": "flintmq.core.pull.pull_result",
    "PushConsumer": "flintmq.client.push.threaded_push",
    "QueueRef": "flintmq.model.queue",
    "ReceivedMessage": "flintmq.model.message",
    "Retry": "flintmq.core.group.listener_results",
    "ScheduledPull": "flintmq.client.pull.threaded_schedule",
    "SendReceipt": "flintmq.core.producer.receipt",
    "SendStatus": "flintmq.core.producer.receipt",
    "TransactionProducer": "flintmq.client.producer.threaded_producer",
    "TransactionReceipt": "flintmq.core.producer.transaction",
    "TransactionState": "flintmq.core.producer.transaction",
}

logging.getLogger("flintmq").addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
