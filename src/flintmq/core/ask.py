"""One question to one server, or to the first name server that answers.

Whatever code a question does not expect is `BrokerRefused` with the address of who said so.
Hints that servers put at the end of a remark lead to a web page and are cut off.
"""

from __future__ import annotations

from collections.abc import Collection

from flintmq.core.conversation import Call, Conversation
from flintmq.core.routes import NameServers, ask_name_servers, is_a_broker
from flintmq.errors import BrokerRefused, FlintError
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import Header

ASK_MS = 5_000
"""What admin tools of RocketMQ wait for an answer."""

CLIENT_CALL_MS = 15_000
"""A broker that asks a client on our behalf gives it ten seconds."""

ONLY_SUCCESS = frozenset({int(ResponseCode.SUCCESS)})

_HINT = "\nSee "


def ask(
    address: str,
    code: int,
    header: Header | None = None,
    body: bytes = b"",
    *,
    timeout_ms: int = ASK_MS,
    accepted: Collection[int] = ONLY_SUCCESS,
) -> Conversation[Command]:
    """Ask one server; an answer with another code than the accepted ones is raised."""
    reply = yield Call(address, request(code, header, body), timeout_ms)
    if reply.code not in accepted:
        raise refusal(reply, address)
    return reply


def refusal(reply: Command, address: str) -> BrokerRefused:
    remark = (reply.remark or "").split(_HINT, 1)[0].strip()
    return BrokerRefused(reply.code, remark, address)


def ask_any(
    namesrv: NameServers,
    code: int,
    header: Header | None = None,
    *,
    accepted: Collection[int] = ONLY_SUCCESS,
) -> Conversation[Command]:
    """Ask one name server after the other until one answers; all know the same."""
    reply = yield from ask_name_servers(namesrv, request(code, header), ASK_MS)
    if reply.code not in accepted:
        address = next(namesrv.in_turn())
        if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise BrokerRefused(reply.code, is_a_broker(address), address)
        raise refusal(reply, address)
    return reply


def ask_each(namesrv: NameServers, code: int, header: Header) -> Conversation[None]:
    """Ask each name server; one that failed is raised after all have been tried."""
    failure: FlintError | None = None
    for address in namesrv.addresses:
        try:
            yield from ask(address, code, header)
        except FlintError as error:
            failure = error
    if failure is not None:
        raise failure
