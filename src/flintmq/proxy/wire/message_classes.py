"""The message classes of the service, made from its descriptor set when this is imported.

`rocketmq_v2.desc` is the compiled form of `definition.proto` and `service.proto` of
apache/rocketmq-apis v2.1.2 (Apache License 2.0).  Its files go into a pool of their own: generated
modules would go into the pool of the process, where the official Python client registers the same
names, and the second of the two could not be imported.

The classes have no types that a checker knows, so they are `Any` here.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE: Final = "apache.rocketmq.v2"
SERVICE: Final = f"{PACKAGE}.MessagingService"

_POOL = descriptor_pool.DescriptorPool()
_SET = descriptor_pb2.FileDescriptorSet.FromString(
    files("flintmq.proxy.wire").joinpath("rocketmq_v2.desc").read_bytes()
)
for _file in _SET.file:
    _POOL.Add(_file)


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


Status: Any = _class("Status")
Settings: Any = _class("Settings")
Resource: Any = _class("Resource")
Endpoints: Any = _class("Endpoints")
GrpcMessage: Any = _class("Message")
MessageQueue: Any = _class("MessageQueue")
TelemetryCommand: Any = _class("TelemetryCommand")
QueryRouteResponse: Any = _class("QueryRouteResponse")
QueryAssignmentResponse: Any = _class("QueryAssignmentResponse")
SendMessageResponse: Any = _class("SendMessageResponse")
ReceiveMessageResponse: Any = _class("ReceiveMessageResponse")
AckMessageResponse: Any = _class("AckMessageResponse")
ChangeInvisibleDurationResponse: Any = _class("ChangeInvisibleDurationResponse")
ForwardMessageToDeadLetterQueueResponse: Any = _class("ForwardMessageToDeadLetterQueueResponse")
HeartbeatResponse: Any = _class("HeartbeatResponse")
EndTransactionResponse: Any = _class("EndTransactionResponse")
NotifyClientTerminationResponse: Any = _class("NotifyClientTerminationResponse")
RecallMessageResponse: Any = _class("RecallMessageResponse")


def service_methods() -> dict[str, tuple[Any, Any]]:
    """The classes of question and answer of every call, by its name."""
    service: Any = _POOL.FindServiceByName(SERVICE)
    return {
        method.name: (
            message_factory.GetMessageClass(method.input_type),
            message_factory.GetMessageClass(method.output_type),
        )
        for method in service.methods
    }


def enum_values(name: str) -> dict[str, int]:
    """The values of an enum by name."""
    return {
        value.name: value.number for value in _POOL.FindEnumTypeByName(f"{PACKAGE}.{name}").values
    }
