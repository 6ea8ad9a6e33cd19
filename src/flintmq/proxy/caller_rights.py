"""Who may make a call: signatures and rights, by the accounts of the brokers.

A client signs the time it sends along (``x-mq-date-time``) with HMAC-SHA1.  The time is not
compared with a clock, as in RocketMQ: a call that was overheard can be repeated, so calls belong
behind TLS.

The rights a call needs are those of the same act in the remoting protocol.

Invariant: where there are accounts, no call passes without a valid signature of an enabled user,
except from an address that the rules trust (ACL 1.0 only).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable
from hashlib import sha1
from typing import Any, Final

from flintmq.access.control import AccessControl, AccessRefusal
from flintmq.access.decide import Need
from flintmq.access.rights import need_on
from flintmq.access.rules import Action, ResourceType, User
from flintmq.access.sources import parse_address
from flintmq.protocol.codes import RequestCode
from flintmq.proxy.calls.client_settings import ToldSettings
from flintmq.proxy.wire.caller import AUTHORIZATION, DATE_TIME, Caller
from flintmq.proxy.wire.grpc_codes import Code
from flintmq.proxy.wire.statuses import StatusRefusal

_HEADER: Final = re.compile(
    r"MQv2-HMAC-SHA1 +Credential=([^,/\s]+)(?:/[^,\s]*)?, *SignedHeaders=[^,]*, *"
    r"Signature=([0-9a-fA-F]{1,128})",
    re.ASCII,
)

_PUB: Final = frozenset({Action.PUB})
_SUB: Final = frozenset({Action.SUB})


def topic_need(name: str, actions: frozenset[Action]) -> Need:
    return need_on(ResourceType.TOPIC, name, actions)


def group_need(name: str) -> Need:
    return need_on(ResourceType.GROUP, name, _SUB)


def _sent(request: Any) -> Iterable[Need]:
    return [topic_need(name, _PUB) for name in {each.topic.name for each in request.messages}]


def _published(request: Any) -> Iterable[Need]:
    return [topic_need(request.topic.name, _PUB)]


def _consumed(request: Any) -> Iterable[Need]:
    return [topic_need(request.topic.name, _SUB), group_need(request.group.name)]


def _received(request: Any) -> Iterable[Need]:
    topic = request.message_queue.topic.name
    return [topic_need(topic, _SUB), group_need(request.group.name)]


def _routed(request: Any) -> Iterable[Need]:
    return [topic_need(request.topic.name, _PUB | _SUB)]


def _of_group(request: Any) -> Iterable[Need]:
    return [group_need(request.group.name)] if request.HasField("group") else []


NEEDS: Final[dict[str, tuple[RequestCode, Callable[[Any], Iterable[Need]]]]] = {
    "QueryRoute": (RequestCode.GET_ROUTEINFO_BY_TOPIC, _routed),
    "QueryAssignment": (RequestCode.QUERY_ASSIGNMENT, _consumed),
    "SendMessage": (RequestCode.SEND_MESSAGE_V2, _sent),
    "RecallMessage": (RequestCode.RECALL_MESSAGE, _published),
    "EndTransaction": (RequestCode.END_TRANSACTION, _published),
    "ReceiveMessage": (RequestCode.POP_MESSAGE, _received),
    "AckMessage": (RequestCode.ACK_MESSAGE, _consumed),
    "ChangeInvisibleDuration": (RequestCode.CHANGE_MESSAGE_INVISIBLETIME, _consumed),
    "ForwardMessageToDeadLetterQueue": (RequestCode.CONSUMER_SEND_MSG_BACK, _consumed),
    "Heartbeat": (RequestCode.HEART_BEAT, _of_group),
    "NotifyClientTermination": (RequestCode.UNREGISTER_CLIENT, _of_group),
}
"""What each call needs, and the request of the remoting protocol it stands for."""


class ProxyAccess:
    """Access control in front of the calls; without ``control`` everything passes."""

    def __init__(self, control: AccessControl | None) -> None:
        self._control = control

    def user_of(self, caller: Caller) -> User | None:
        """Who signed a call; None where nobody has to."""
        control = self._control
        source = parse_address(caller.ip)
        if control is None or control.is_trusted(source):
            return None
        header = caller.metadata.get(AUTHORIZATION)
        if header is None:
            return _passed(control.identify(None, lambda _: False, source))
        match = _HEADER.fullmatch(header.strip())
        if match is None:
            raise StatusRefusal(Code.UNAUTHORIZED, "authentication header is incorrect.")
        signed = caller.metadata.get(DATE_TIME)
        if signed is None:
            raise StatusRefusal(Code.UNAUTHORIZED, "datetime is null.")
        name, signature = match.groups()
        return _passed(
            control.identify(name, lambda secret: is_signature(secret, signed, signature), source)
        )

    def check(self, call: str, request: Any, caller: Caller) -> None:
        """`StatusRefusal` where the user of a call may not make it."""
        code, needs = NEEDS[call]
        self._check(needs(request), code, caller)

    def check_settings(self, caller: Caller, told: ToldSettings) -> None:
        """`StatusRefusal` where the user may not be a client with these settings."""
        if told.is_consumer:
            needs = [group_need(told.group), *(topic_need(each, _SUB) for each in told.topics)]
        else:
            needs = [topic_need(each, _PUB) for each in told.topics]
        self._check(needs, RequestCode.HEART_BEAT, caller)

    def _check(self, needs: Iterable[Need], code: RequestCode, caller: Caller) -> None:
        control, user = self._control, caller.user
        if control is None or user is None:
            return
        source = parse_address(caller.ip)
        if control.is_trusted_for(user, source):
            return
        refused = control.lacks(user, needs, int(code), source)
        if refused is not None:
            raise StatusRefusal(Code.UNAUTHORIZED, refused.remark)


def is_signature(secret: str, text: str, signature: str) -> bool:
    """Whether a signature in hexadecimal digits is that of a text."""
    made = hmac.new(secret.encode(), text.encode(), sha1).hexdigest()
    return hmac.compare_digest(made, signature.lower())


def _passed(found: User | AccessRefusal) -> User:
    if isinstance(found, AccessRefusal):
        raise StatusRefusal(Code.UNAUTHORIZED, found.remark)
    return found
