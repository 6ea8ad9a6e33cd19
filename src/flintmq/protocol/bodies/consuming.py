"""How a group consumes, as bodies say it: enums that come by name or by number.

Java writes the name.  The C++ client writes the ordinal, and fastjson reads either, whatever
the case of the name.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from flintmq.model.group import ConsumeFromWhere, ConsumeType, MessageModel
from flintmq.protocol.bodies.body import custom

E = TypeVar("E", bound=StrEnum)


def _by_name_or_ordinal(kind: type[E]) -> Callable[[Any], E]:
    members = list(kind)

    def read(value: Any) -> E:
        if isinstance(value, str):
            return kind(value.upper())
        if isinstance(value, int) and 0 <= value < len(members):
            return members[value]
        raise ValueError(f"no {kind.__name__} is {value!r:.40}")

    return read


if TYPE_CHECKING:
    ConsumeTypeField: TypeAlias = ConsumeType
    MessageModelField: TypeAlias = MessageModel
    ConsumeFromWhereField: TypeAlias = ConsumeFromWhere
else:
    ConsumeTypeField = custom(_by_name_or_ordinal(ConsumeType))
    MessageModelField = custom(_by_name_or_ordinal(MessageModel))
    ConsumeFromWhereField = custom(_by_name_or_ordinal(ConsumeFromWhere))
