"""`flintmq group lag` without a group: how far every group is behind, the furthest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flintmq.cli.shared.output import Output, print_json, print_line
from flintmq.cli.shared.tables import Wrapped, print_table
from flintmq.model.group import is_retry_topic

if TYPE_CHECKING:
    from flintmq.core.admin.lag import GroupLag


def print_every_lag(
    found: Sequence[GroupLag], output: Output, facts: Callable[[GroupLag], dict[str, object]]
) -> None:
    """A row for each group; for programs what `group lag GROUP` tells of each."""
    ordered = sorted(found, key=lambda each: (-each.lag, each.group))
    if output is Output.JSON:
        print_json([facts(each) for each in ordered])
        return
    if not ordered:
        print_line("there is no group yet")
        return
    print_table(
        ("group", "lag", "retries", "in flight", "consumed/s", Wrapped("topics")),
        (
            (
                each.group,
                each.lag,
                each.retries,
                each.in_flight,
                each.consumed_per_second,
                _topics(each),
            )
            for each in ordered
        ),
    )
    behind = sum(each.lag > 0 for each in ordered)
    print_line(f"{behind} of {len(ordered)} groups are behind")


def _topics(lag: GroupLag) -> str | None:
    """The topics of a group as text; None for a group that committed no offset yet."""
    topics = {each.queue.topic for each in lag.queues}
    return ", ".join(sorted(each for each in topics if not is_retry_topic(each))) or None
