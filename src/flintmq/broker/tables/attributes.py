"""Attributes of topics and groups, 5.x: changes to them, and which there may be.

A change is written ``+key=value`` or ``-key``; several are joined by commas, or stand in a map
with the sign as part of the key.  The texts of refusals are RocketMQ's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flintmq.broker.requests.outcome import Refusal
from flintmq.protocol.codes import ResponseCode
from flintmq.store.queues.queue_kinds import BATCH_QUEUE, QUEUE_TYPE


class Attribute(NamedTuple):
    """The values an attribute may have, and whether it may change once it is there."""

    values: frozenset[str]
    is_changeable: bool = True


TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    QUEUE_TYPE: Attribute(frozenset({"SimpleCQ", BATCH_QUEUE}), is_changeable=False),
    "cleanup.policy": Attribute(frozenset({"DELETE"}), is_changeable=False),
    "message.type": Attribute(
        frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"})
    ),
}
"""Those of RocketMQ, without the values that ask for something this broker does not do."""

GROUP_ATTRIBUTES: Mapping[str, Attribute] = {}


def keeps_batches(attributes: Mapping[str, str] | None) -> bool:
    """Whether a topic with these attributes keeps batches as they were sent."""
    return attributes is not None and attributes.get(QUEUE_TYPE) == BATCH_QUEUE


def parse_changes(text: str | None) -> dict[str, str]:
    """``+a=1,-b`` as a map; raise `Refusal` for anything else."""
    changes: dict[str, str] = {}
    for part in (text or "").split(","):
        if not part:
            continue
        key, equals, value = part.partition("=")
        if equals and not key.startswith("+"):
            raise _refusal(f"add/alter attribute format is wrong: {key}")
        if not equals and not key.startswith("-"):
            raise _refusal(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise _refusal(f"key duplication: {key}")
        changes[key] = value
    return changes


def altered(
    current: Mapping[str, str] | None,
    changes: Mapping[str, str],
    known: Mapping[str, Attribute],
) -> dict[str, str]:
    """Attributes after a change; ``current`` is None for what is about to be made.

    All of it is checked before anything counts.
    """
    result = dict(current or {})
    seen = set()
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if not key or "+" in key or "-" in key:
            raise _refusal("kv string format wrong.")
        if key in seen:
            raise _refusal(f"alter duplication key. key: {key}")
        seen.add(key)
        if current is None and sign != "+":
            raise _refusal(f"only add attribute is supported while creating topic. key: {key}")
        if sign not in ("+", "-"):
            raise _refusal(f"wrong format key: {key}")
        if sign == "-" and key not in result:
            raise _refusal(f"attempt to delete a nonexistent key: {key}")
        attribute = known.get(key)
        if attribute is None:
            raise _refusal(f"unsupported key: {key}")
        if current is not None and not attribute.is_changeable:
            raise _refusal(f"attempt to update an unchangeable attribute. key: {key}")
        if sign == "-":
            del result[key]
        elif value in attribute.values:
            result[key] = value
        else:
            allowed = ", ".join(sorted(attribute.values))
            raise _refusal(f"value is not in set: [{allowed}], key: {key}")
    return result


def _refusal(remark: str) -> Refusal:
    return Refusal(ResponseCode.SYSTEM_ERROR, remark)
