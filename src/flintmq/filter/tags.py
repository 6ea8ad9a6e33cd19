"""Tag subscriptions: ``*``, or tags separated by ``||``.

Two parties use one. The broker knows only the hash of a message's tag and tests that; hashes
collide, so the consumer tests the tag's text again. Both rules are RocketMQ's, and they differ
for a text that holds no tag at all, such as a blank: it matches nothing at the broker, and a
consumer that gets messages anyway keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flintmq.errors import InvalidExpression
from flintmq.model.java_hash import java_hash

ALL = "*"
SEPARATOR = "||"

# What Java's trim() removes: every character up to the blank.
_TRIMMED = "".join(map(chr, range(0x21)))

_SIGN_BIT = 1 << 31
_LOW_32_BITS = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class TagSubscription:
    """A tag subscription, for broker and consumer; ``codes`` are the Java hashes of ``tags``."""

    text: str
    tags: frozenset[str]
    codes: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", frozenset(map(java_hash, self.tags)))

    @property
    def takes_all(self) -> bool:
        return self.text == ALL

    def matches_code(self, code: int | None) -> bool:
        """The broker's test.  ``code`` is the 64-bit field of a consume queue, None if unknown."""
        if code is None or self.takes_all:
            return True
        low = code & _LOW_32_BITS
        return (low ^ _SIGN_BIT) - _SIGN_BIT in self.codes

    def matches_tag(self, tag: str | None) -> bool:
        """The consumer's test, on the tag itself.  A message without one has ``None``."""
        return not self.tags or tag in self.tags


def parse_tags(text: str | None) -> TagSubscription:
    """Read a subscription; nothing at all means everything.

    A text of separators only is refused, as RocketMQ does; blanks around them are not.
    """
    if not text or text == ALL:
        return TagSubscription(ALL, frozenset())
    parts = text.split(SEPARATOR)
    if not any(parts):
        raise InvalidExpression(text, 1, "there is no tag beside the separators")
    trimmed = (part.strip(_TRIMMED) for part in parts)
    return TagSubscription(text, frozenset(tag for tag in trimmed if tag))


def canonical_tags(text: str) -> str:
    """A subscription written so that equal texts mean the same: its tags in order.

    A text that no broker would take stays as it is.
    """
    try:
        parsed = parse_tags(text)
    except InvalidExpression:
        return text
    return f" {SEPARATOR} ".join(sorted(parsed.tags)) or parsed.text
