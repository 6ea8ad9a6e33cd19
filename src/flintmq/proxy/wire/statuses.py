"""Statuses: the code and text with which every answer begins, and which errors they stand for.

Clients branch on few codes and show the text to people.  Where RocketMQ's proxy has a text for a
case, it is used.
"""

from __future__ import annotations

from typing import Any, Final

from flintmq.errors import (
    BrokerRefused,
    FlintError,
    NoRoute,
    Overloaded,
    SendFailed,
    Unreachable,
    WrongState,
)
from flintmq.protocol.codes import ResponseCode
from flintmq.proxy.wire.grpc_codes import Code
from flintmq.proxy.wire.message_classes import Status

OF_BROKER_CODES: Final = {
    int(ResponseCode.SYSTEM_BUSY): Code.TOO_MANY_REQUESTS,
    int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED): Code.NOT_IMPLEMENTED,
    int(ResponseCode.TOPIC_NOT_EXIST): Code.TOPIC_NOT_FOUND,
    int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST): Code.CONSUMER_GROUP_NOT_FOUND,
    int(ResponseCode.MESSAGE_ILLEGAL): Code.BAD_REQUEST,
}
"""What a broker's refusal is told as; every other one is an INTERNAL_SERVER_ERROR."""

JAVA_NAME: Final = "org.apache.rocketmq.proxy.common.ProxyException: "
"""RocketMQ writes the class of some errors before their text; programs may look for it."""


class StatusRefusal(Exception):
    """A call is refused with this status."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(code, text)
        self.code, self.text = code, text

    @property
    def status(self) -> Any:
        return status(self.code, self.text)


def status(code: Code, text: str) -> Any:
    return Status(code=int(code), message=text)


def ok() -> Any:
    return status(Code.OK, "OK")


def refusal_of(error: FlintError) -> StatusRefusal:
    """What a client is told of an error of ours or of a broker."""
    match error:
        case NoRoute():
            return _of(Code.TOPIC_NOT_FOUND, error)
        case BrokerRefused() | SendFailed() if error.code:
            code = OF_BROKER_CODES.get(error.code, Code.INTERNAL_SERVER_ERROR)
            return _of(code, error)
        case Unreachable() | SendFailed():
            return _of(Code.PROXY_TIMEOUT, error)
        case Overloaded():
            return _of(Code.TOO_MANY_REQUESTS, error)
        case WrongState():
            return StatusRefusal(Code.INTERNAL_SERVER_ERROR, "the proxy is being stopped")
        case _:
            return _of(Code.INTERNAL_SERVER_ERROR, error)


def no_such_topic(topic: str) -> StatusRefusal:
    """The text of RocketMQ: the route is what is missing."""
    text = (
        f"CODE: 17  DESC: No topic route info in name server for the topic: {topic}\n"
        "For more information, please visit the url, "
        "https://rocketmq.apache.org/docs/bestPractice/06FAQ"
    )
    return StatusRefusal(Code.TOPIC_NOT_FOUND, text)


def _of(code: Code, error: FlintError) -> StatusRefusal:
    return StatusRefusal(code, str(error))
