"""One question to one server, or to the first name server that answers.

Whatever code a question does not expect is `BrokerRefused` with the address of who said so.
Hints that servers put at the end of a remark lead to a web page and are cut off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from flintmq.core.conversation import Call, Conversation
from flintmq.errors import BrokerRefused, InvalidSetting, Unreachable
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import Header

ASK_MS = 5_000
"""What admin tools of RocketMQ wait for an answer."""

CLIENT_CALL_MS = 15_000
"""A broker that asks a client on our behalf gives it ten seconds."""

NAME_SERVERS_MAX = 64
"""Each may be tried in turn, so a list is as long as somebody is ready to wait."""

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


class NameServers:
    """The name servers of a cluster.  The one that answered last is asked first.

    All know the same, so one answer is enough, whatever it says.  Only `tell_all` goes to each.
    """

    def __init__(self, addresses: Iterable[str]) -> None:
        self._addresses = list(dict.fromkeys(addresses))
        if not self._addresses:
            raise InvalidSetting("namesrv", "", "give at least one host:port")
        if len(self._addresses) > NAME_SERVERS_MAX:
            reason = f"at most {NAME_SERVERS_MAX} name servers can be given"
            raise InvalidSetting("namesrv", ";".join(self._addresses), reason)

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(self._addresses)

    def __str__(self) -> str:
        return ";".join(self._addresses)

    def ask(
        self,
        code: int,
        header: Header | None = None,
        *,
        accepted: Collection[int] = ONLY_SUCCESS,
    ) -> Conversation[Command]:
        """Ask one after the other until one answers; `Unreachable` when none does."""
        reasons = []
        for address in self.addresses:
            try:
                reply = yield Call(address, request(code, header), ASK_MS)
            except Unreachable as error:
                reasons.append(error)
                continue
            self._prefer(address)
            if reply.code not in accepted:
                raise refusal(reply, address)
            return reply
        raise _none_of(reasons)

    def tell_all(self, code: int, header: Header) -> Conversation[None]:
        """Ask each of them; what failed is raised after all have been tried."""
        failed: list[Unreachable] = []
        for address in self.addresses:
            try:
                yield from ask(address, code, header)
            except Unreachable as error:
                failed.append(error)
        if failed:
            raise _none_of(failed)

    def _prefer(self, address: str) -> None:
        if self._addresses[0] != address:
            self._addresses.remove(address)
            self._addresses.insert(0, address)


def _none_of(errors: list[Unreachable]) -> Unreachable:
    if len(errors) == 1:
        return errors[0]
    return Unreachable(
        ";".join(error.address for error in errors), "; ".join(error.reason for error in errors)
    )
