"""Whether a new member wants the same as the members a group already has.

A broker keeps one subscription for each group and topic, and each heartbeat replaces it.  Members
that differ therefore take each other's messages away, without any error.  So who is about to join
compares first, and asks each member what it wants where the group as a whole wants something else.

The group's own retry topic does not count: some clients subscribe to it later than to the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from flintmq.core.admin.groups import connections_at
from flintmq.core.conversation import Call, Conversation
from flintmq.errors import FlintError
from flintmq.filter.tags import canonical_tags
from flintmq.model.group import MessageModel, retry_topic
from flintmq.protocol.bodies.client import Subscription
from flintmq.protocol.bodies.client_call import RunningConsumer
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.client_call import DescribeConsumer

MEMBERS_ASKED_MAX: Final = 16
"""Members that are asked what they want; more would make a start slow and tell nothing new."""

ASK_MEMBER_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class GroupWishes:
    """What is known of a group before we join it.  ``members`` are the others, by client id.

    A member that does not tell what it wants has None.
    """

    has_own_id: bool
    model: MessageModel
    members: Mapping[str, Mapping[str, str] | None]


def wishes_of(group: str, subscriptions: Iterable[Subscription]) -> dict[str, str]:
    """What is wanted of each topic, so written that equal texts mean the same."""
    own_retries = retry_topic(group)
    return {each.topic: _text(each) for each in subscriptions if each.topic != own_retries}


def ask_wishes(
    address: str, group: str, client_id: str, own: Mapping[str, str]
) -> Conversation[GroupWishes | None]:
    """The subscriptions of the members that are online; None when nobody is.

    They come from GET_CONSUMER_CONNECTION_LIST (203) and, if the group differs, from
    GET_CONSUMER_RUNNING_INFO (307) for each member.
    """
    known = yield from connections_at(address, group)
    if known is None:
        return None
    others = sorted({each.client_id for each in known.connection_set} - {client_id})
    has_own_id = any(each.client_id == client_id for each in known.connection_set)
    together = wishes_of(group, known.subscription_table.values())
    if not others or together == own:
        members: dict[str, Mapping[str, str] | None] = dict.fromkeys(others, own)
        return GroupWishes(has_own_id, known.message_model, members)
    members = {}
    for other in others[:MEMBERS_ASKED_MAX]:
        members[other] = yield from _ask_member(address, group, other)
    if not any(members.values()):  # nobody says; what the group as a whole wants is known
        members = dict.fromkeys(members, together)
    return GroupWishes(has_own_id, known.message_model, members)


def _ask_member(address: str, group: str, client_id: str) -> Conversation[dict[str, str] | None]:
    header = DescribeConsumer(consumer_group=group, client_id=client_id, jstack_enable=False)
    asked = request(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    try:
        reply = yield Call(address, asked, ASK_MEMBER_MS)
        if reply.code != ResponseCode.SUCCESS:
            return None
        return wishes_of(group, RunningConsumer.from_body(reply.body).subscription_set)
    except FlintError:
        return None


def describe_conflict(
    client_id: str, own: Mapping[str, str], model: MessageModel, wishes: GroupWishes
) -> str | None:
    """Who wants what, for people; None where all agree."""
    differing = {
        member: wanted
        for member, wanted in wishes.members.items()
        if wanted is not None and wanted != own
    }
    if not wishes.members or (not differing and wishes.model is model):
        return None
    if not differing:
        return f"the group consumes by {wishes.model.value}, this member by {model.value}"
    lines = [f"{client_id} (this one) wants {_listed(own)}"]
    lines += [f"{member} wants {_listed(wanted)}" for member, wanted in differing.items()]
    return "; ".join(lines)


def _listed(wishes: Mapping[str, str]) -> str:
    return ", ".join(f"{topic} [{text}]" for topic, text in sorted(wishes.items())) or "nothing"


def _text(subscription: Subscription) -> str:
    if not subscription.is_tag:
        return f"{subscription.expression_type}: {subscription.sub_string}"
    return canonical_tags(subscription.sub_string)
