"""Which dead letters a command is about, and how they are shown.

A letter is left out when it is dealt with: it lies before the mark of its queue, or a replay sent
it already.  The rules are those of `core.admin.dead_letter_marks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.shared.message_view import facts_of, report_bad, short_body
from flintmq.cli.shared.options import require_group
from flintmq.cli.shared.output import when
from flintmq.cli.shared.tables import Wrapped, print_table
from flintmq.cli.shared.times import parse_times
from flintmq.core.admin.dead_letters import BuriedMessage
from flintmq.filter.tags import parse_tags
from flintmq.model.queue import QueueRef

if TYPE_CHECKING:
    from flintmq.client.admin import Admin

Keys = Annotated[str | None, typer.Option("--key", "-k", help="With this key.", show_default=False)]
Id = Annotated[
    str | None,
    typer.Option(
        "--id", help="With this id, of either kind, or the first one's.", show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which dead letters are meant."""

    key: str | None
    message_id: str | None
    start_ms: int
    stop_ms: int
    fits_tags: Callable[[str | None], bool]

    @classmethod
    def of(
        cls,
        key: str | None = None,
        message_id: str | None = None,
        since: str | None = None,
        until: str | None = None,
        tag: str | None = None,
    ) -> Choice:
        start_ms, stop_ms = parse_times(since, until)
        return cls(key, message_id, start_ms, stop_ms, parse_tags(tag).matches_tag)

    def fits(self, letter: BuriedMessage) -> bool:
        message = letter.message
        ids = (message.message_id, message.offset_message_id, letter.origin_message_id)
        return (
            (self.key is None or self.key in message.keys)
            and (self.message_id is None or self.message_id in ids)
            and self.start_ms <= message.store_ms < self.stop_ms
            and self.fits_tags(message.tags)
        )


@dataclass(frozen=True, slots=True)
class FoundLetter:
    """A dead letter that was chosen, and whether it lies before the mark."""

    letter: BuriedMessage
    is_marked: bool


def find_letters(admin: Admin, group: str, choice: Choice) -> list[FoundLetter]:
    """The chosen dead letters, oldest first; ends the command when no broker knows the group."""
    spans = admin.dead_letter_spans(group)
    if not spans:
        require_group(admin, group)
        return []
    marks = {mark.queue: mark.marked_to for mark in admin.dead_letter_marks(group)}
    found = [
        FoundLetter(letter, letter.message.queue_offset < marks.get(_queue(letter), 0))
        for located in spans
        for letter in map(BuriedMessage.of, admin.read(located, on_bad=report_bad))
        if choice.fits(letter)
    ]
    found.sort(key=lambda each: each.letter.message.store_ms)
    return found


def _queue(letter: BuriedMessage) -> QueueRef:
    message = letter.message
    return QueueRef(message.topic, message.broker, message.queue_id)


def replayed_ms(admin: Admin, group: str, letter: BuriedMessage) -> int | None:
    """When a replay last sent this dead letter again; None when none did."""
    return max((copy.store_ms for copy in admin.replays(group, letter)), default=None)


def letter_facts(found: FoundLetter) -> dict[str, object]:
    """The fields of a dead letter, for JSON."""
    letter = found.letter
    return {
        **facts_of(letter.message),
        "origin_topic": letter.origin_topic,
        "origin_message_id": letter.origin_message_id,
        "reason": letter.reason,
        "marked": found.is_marked,
    }


def print_letters(letters: Iterable[BuriedMessage]) -> None:
    """Print a row for each dead letter."""
    print_table(
        (
            *("stored at", "of topic", "id", Wrapped("tag"), Wrapped("keys"), "tries"),
            *(Wrapped("reason"), Wrapped("body")),
        ),
        (
            (
                when(letter.message.store_ms),
                letter.origin_topic,
                letter.message.message_id,
                letter.message.tags,
                " ".join(letter.message.keys) or None,
                letter.message.reconsume_times,
                letter.reason,
                short_body(letter.message),
            )
            for letter in letters
        ),
    )
