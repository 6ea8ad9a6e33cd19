"""FlintMQ: Apache RocketMQ's protocol, store and consumers in Python, and its topics on Spark.

What is imported from here is loaded when it is first used: importing the package alone loads
neither a broker nor anything else heavy.

The package logs under ``flintmq.…`` with the standard library and leaves handlers, levels and
files to the program that uses it.  A program that sets up none sees warnings and errors on stderr,
as Python does by itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flintmq.client.admin import Admin
    from flintmq.client.hooks.consume_hooks import ConsumeContext, ConsumeHook, FilterHook
    from flintmq.client.hooks.receive_hooks import ReceiveContext, ReceiveHook, SettleContext
    from flintmq.client.hooks.request_hooks import RequestHook
    from flintmq.client.hooks.send_hooks import SendContext, SendHook
    from flintmq.client.idempotence.idempotent import idempotent
    from flintmq.client.idempotence.key_store import KeyState, KeyStore, MemoryKeys
    from flintmq.client.idempotence.redis_keys import RedisKeys
    from flintmq.client.idempotence.sql_keys import SqliteKeys, SqlKeys
    from flintmq.client.offsets.offset_store import OffsetStore
    from flintmq.client.producer.threaded_producer import Producer, TransactionProducer
    from flintmq.client.pull.scheduled_pull import PullContext
    from flintmq.client.pull.threaded_pull import LitePullConsumer, PullConsumer
    from flintmq.client.pull.threaded_schedule import ScheduledPull
    from flintmq.client.push.threaded_push import PushConsumer
    from flintmq.client.run_app import App
    from flintmq.client.simple.threaded_simple import SimpleConsumer
    from flintmq.core.admin.dead_letters import BuriedMessage, ReplayTo
    from flintmq.core.group.allocate import (
        allocate_averagely,
        allocate_by_circle,
        allocate_by_consistent_hash,
        allocate_by_machine_room,
        allocate_configured,
        allocate_nearby,
        allocate_sticky,
    )
    from flintmq.core.group.listener_results import (
        Ack,
        DeadLetter,
        Listener,
        ListenerResult,
        Retry,
    )
    from flintmq.core.producer.receipt import SendReceipt, SendStatus
    from flintmq.core.producer.transaction import TransactionReceipt, TransactionState
    from flintmq.core.pull.pull_result import PullResult, PullStatus
    from flintmq.embedded.broker import EmbeddedBroker
    from flintmq.embedded.embedded_users import EmbeddedUser
    from flintmq.errors import (
        BrokerRefused,
        FlintError,
        GroupConflict,
        InvalidExpression,
        InvalidMessage,
        InvalidName,
        InvalidSetting,
        MessagesLost,
        MissingExtra,
        NoReply,
        NoRoute,
        Overloaded,
        PartlySent,
        ReceiptExpired,
        SendFailed,
        UndecodableRecord,
        Unreachable,
        WrongState,
    )
    from flintmq.model.group import ConsumeFromWhere, MessageModel
    from flintmq.model.message import Message, ReceivedMessage
    from flintmq.model.queue import QueueRef
    from flintmq.net.tls import ClientTls, ServerTls, TlsMode
    from flintmq.protocol.codes import RequestCode

__version__ = "0.1.0"

__all__ = [
    "Ack",
    "Admin",
    "App",
    "BrokerRefused",
    "BuriedMessage",
    "ClientTls",
    "ConsumeContext",
    "ConsumeFromWhere",
    "ConsumeHook",
    "DeadLetter",
    "EmbeddedBroker",
    "EmbeddedUser",
    "FilterHook",
    "FlintError",
    "GroupConflict",
    "InvalidExpression",
    "InvalidMessage",
    "InvalidName",
    "InvalidSetting",
    "KeyState",
    "KeyStore",
    "Listener",
    "ListenerResult",
    "LitePullConsumer",
    "MemoryKeys",
    "Message",
    "MessageModel",
    "MessagesLost",
    "MissingExtra",
    "NoReply",
    "NoRoute",
    "OffsetStore",
    "Overloaded",
    "PartlySent",
    "Producer",
    "PullConsumer",
    "PullContext",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "QueueRef",
    "ReceiptExpired",
    "ReceiveContext",
    "ReceiveHook",
    "ReceivedMessage",
    "RedisKeys",
    "ReplayTo",
    "RequestCode",
    "RequestHook",
    "Retry",
    "ScheduledPull",
    "SendContext",
    "SendFailed",
    "SendHook",
    "SendReceipt",
    "SendStatus",
    "ServerTls",
    "SettleContext",
    "SimpleConsumer",
    "SqlKeys",
    "SqliteKeys",
    "TlsMode",
    "TransactionProducer",
    "TransactionReceipt",
    "TransactionState",
    "UndecodableRecord",
    "Unreachable",
    "WrongState",
    "__version__",
    "allocate_averagely",
    "allocate_by_circle",
    "allocate_by_consistent_hash",
    "allocate_by_machine_room",
    "allocate_configured",
    "allocate_nearby",
    "allocate_sticky",
    "idempotent",
]

_WHERE = {
    "Ack": "flintmq.core.group.listener_results",
    "Admin": "flintmq.client.admin",
    "App": "flintmq.client.run_app",
    "BrokerRefused": "flintmq.errors",
    "BuriedMessage": "flintmq.core.admin.dead_letters",
    "ClientTls": "flintmq.net.tls",
    "ConsumeContext": "flintmq.client.hooks.consume_hooks",
    "ConsumeFromWhere": "flintmq.model.group",
    "ConsumeHook": "flintmq.client.hooks.consume_hooks",
    "DeadLetter": "flintmq.core.group.listener_results",
    "EmbeddedBroker": "flintmq.embedded.broker",
    "EmbeddedUser": "flintmq.embedded.embedded_users",
    "FilterHook": "flintmq.client.hooks.consume_hooks",
    "ReceiveContext": "flintmq.client.hooks.receive_hooks",
    "ReceiveHook": "flintmq.client.hooks.receive_hooks",
    "SettleContext": "flintmq.client.hooks.receive_hooks",
    "FlintError": "flintmq.errors",
    "GroupConflict": "flintmq.errors",
    "InvalidExpression": "flintmq.errors",
    "InvalidMessage": "flintmq.errors",
    "InvalidName": "flintmq.errors",
    "InvalidSetting": "flintmq.errors",
    "KeyState": "flintmq.client.idempotence.key_store",
    "KeyStore": "flintmq.client.idempotence.key_store",
    "Listener": "flintmq.core.group.listener_results",
    "ListenerResult": "flintmq.core.group.listener_results",
    "LitePullConsumer": "flintmq.client.pull.threaded_pull",
    "MemoryKeys": "flintmq.client.idempotence.key_store",
    "Message": "flintmq.model.message",
    "MessageModel": "flintmq.model.group",
    "MessagesLost": "flintmq.errors",
    "MissingExtra": "flintmq.errors",
    "NoReply": "flintmq.errors",
    "NoRoute": "flintmq.errors",
    "OffsetStore": "flintmq.client.offsets.offset_store",
    "Overloaded": "flintmq.errors",
    "PartlySent": "flintmq.errors",
    "Producer": "flintmq.client.producer.threaded_producer",
    "PullConsumer": "flintmq.client.pull.threaded_pull",
    "PullContext": "flintmq.client.pull.scheduled_pull",
    "PullResult": "flintmq.core.pull.pull_result",
    "PullStatus": "flintmq.core.pull.pull_result",
    "PushConsumer": "flintmq.client.push.threaded_push",
    "QueueRef": "flintmq.model.queue",
    "ReceivedMessage": "flintmq.model.message",
    "ReceiptExpired": "flintmq.errors",
    "RedisKeys": "flintmq.client.idempotence.redis_keys",
    "ReplayTo": "flintmq.core.admin.dead_letters",
    "RequestCode": "flintmq.protocol.codes",
    "RequestHook": "flintmq.client.hooks.request_hooks",
    "Retry": "flintmq.core.group.listener_results",
    "ScheduledPull": "flintmq.client.pull.threaded_schedule",
    "SendContext": "flintmq.client.hooks.send_hooks",
    "SendFailed": "flintmq.errors",
    "SendHook": "flintmq.client.hooks.send_hooks",
    "SendReceipt": "flintmq.core.producer.receipt",
    "SendStatus": "flintmq.core.producer.receipt",
    "ServerTls": "flintmq.net.tls",
    "SimpleConsumer": "flintmq.client.simple.threaded_simple",
    "SqlKeys": "flintmq.client.idempotence.sql_keys",
    "SqliteKeys": "flintmq.client.idempotence.sql_keys",
    "TlsMode": "flintmq.net.tls",
    "TransactionProducer": "flintmq.client.producer.threaded_producer",
    "TransactionReceipt": "flintmq.core.producer.transaction",
    "TransactionState": "flintmq.core.producer.transaction",
    "UndecodableRecord": "flintmq.errors",
    "Unreachable": "flintmq.errors",
    "WrongState": "flintmq.errors",
    "allocate_averagely": "flintmq.core.group.allocate",
    "allocate_by_circle": "flintmq.core.group.allocate",
    "allocate_by_consistent_hash": "flintmq.core.group.allocate",
    "allocate_by_machine_room": "flintmq.core.group.allocate",
    "allocate_configured": "flintmq.core.group.allocate",
    "allocate_nearby": "flintmq.core.group.allocate",
    "allocate_sticky": "flintmq.core.group.allocate",
    "idempotent": "flintmq.client.idempotence.idempotent",
}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
