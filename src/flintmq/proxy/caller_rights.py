"""Who may make a call: signatures and rights, by the accounts of the brokers.

A client signs the time it sends along (``x-mq-date-time``) with HMAC-SHA1.  The time is not
compared with a clock, as in RocketMQ: a call that was overheard can be repeated, so calls belong
behind TLS.

The rights a call needs are those of the same act in the remoting protocol.

Invariant: where there are accounts, no call passes without a valid signature of an enabled user,
except from an address that the rules trust (ACL 1.0 only).  An auditor hears of every refusal.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha1
from typing import Any, Final

from flintmq.access.control import AccessControl, AccessRefusal
from flintmq.access.decide import Need
from flintmq.access.rights import need_on
from flintmq.access.rules import Action, ResourceType, User
from flintmq.access.sources import parse_address
from flintmq.net.servers.access_gate import AccessDecision, Auditor
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.proxy.calls.client_settings import ToldSettings
from flintmq.proxy.wire.caller import AUTHORIZATION, DATE_TIME, Caller
from flintmq.proxy.wire.grpc_codes import Code
from flintmq.proxy.wire.statuses import StatusRefusal

_HEADER: Final = re.compile(
    r"MQv2-HMAC-SHA1 +Credential=([^,/\s]+)(?:/[^,\s]*)?, *SignedHeaders=[^,]*, *"
    r"Signature=([0-9a-fA-F]{1,128})",
    re.ASCII,
)

TELEMETRY: Final = "Telemetry"

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
    TELEMETRY: (RequestCode.HEART_BEAT, lambda _: ()),
}
"""What each call needs, and the request of the remoting protocol it stands for.

What a telemetry stream needs its settings say, which come later.
"""


class ProxyAccess:
    """Access control in front of the calls; without ``control`` everything passes."""

    def __init__(self, control: AccessControl | None, auditor: Auditor | None = None) -> None:
        self._control = control
        self._auditor = auditor

    def admit(self, call: str, request: Any, caller: Caller) -> Caller:
        """The caller with who signed the call; `StatusRefusal` where they may not make it."""
        if self._control is None:
            return caller
        code, needs = NEEDS[call]
        user = self._user_of(caller)
        if isinstance(user, AccessRefusal):
            raise self._refused(call, caller, user)
        caller = replace(caller, user=user)
        self._check(call, needs(request), code, caller)
        return caller

    def _user_of(self, caller: Caller) -> User | AccessRefusal | None:
        """Who signed a call; None where nobody has to."""
        control = self._control
        source = parse_address(caller.ip)
        if control is None or control.is_trusted(source):
            return None
        header = caller.metadata.get(AUTHORIZATION)
        if header is None:
            return control.identify(None, lambda _: False, source)
        match = _HEADER.fullmatch(header.strip())
        if match is None:
            return _unsigned("authentication header is incorrect.")
        signed = caller.metadata.get(DATE_TIME)
        if signed is None:
            return _unsigned("datetime is null.")
        name, signature = match.groups()
        return control.identify(
            name, lambda secret: is_signature(secret, signed, signature), source
        )

    def check_settings(self, caller: Caller, told: ToldSettings) -> None:
        """`StatusRefusal` where the user may not be a client with these settings."""
        if told.is_consumer:
            needs = [group_need(told.group), *(topic_need(each, _SUB) for each in told.topics)]
        else:
            needs = [topic_need(each, _PUB) for each in told.topics]
        self._check(TELEMETRY, needs, RequestCode.HEART_BEAT, caller)

    def _check(self, call: str, needs: Iterable[Need], code: RequestCode, caller: Caller) -> None:
        control, user = self._control, caller.user
        if control is None:
            return
        needed = tuple(needs)
        source = parse_address(caller.ip)
        if user is not None and not control.is_trusted_for(user, source):
            refused = control.lacks(user, needed, int(code), source)
            if refused is not None:
                raise self._refused(call, caller, refused)
        if self._auditor is not None and self._auditor.hears_all:
            self._auditor.record(AccessDecision(int(code), caller.peer, user, needed, call))

    def _refused(self, call: str, caller: Caller, refusal: AccessRefusal) -> StatusRefusal:
        if self._auditor is not None:
            code, _ = NEEDS[call]
            self._auditor.record(AccessDecision(int(code), caller.peer, refusal, (), call))
        return StatusRefusal(Code.UNAUTHORIZED, refusal.remark)


def is_signature(secret: str, text: str, signature: str) -> bool:
    """Whether a signature in hexadecimal digits is that of a text."""
    made = hmac.new(secret.encode(), text.encode(), sha1).hexdigest()
    return hmac.compare_digest(made, signature.lower())


def _unsigned(text: str) -> AccessRefusal:
    return AccessRefusal(ResponseCode.NO_PERMISSION, text)
