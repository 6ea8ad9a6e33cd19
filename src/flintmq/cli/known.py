"""Groups that brokers are set up for: which there are, and that one is among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.cli.output import SAYS_NO, give_up

if TYPE_CHECKING:
    from flintmq.client.admin import Admin

NAMED_MAX = 10
"""Groups that are named when one is not there."""


def require_group(admin: Admin, group: str) -> None:
    """End the command when no broker knows the group."""
    known = [each.name for each in admin.groups() if not each.is_system]
    if group not in known:
        shown = ", ".join(known[:NAMED_MAX]) or "none"
        give_up(f"no broker knows a group {group!r}; there are: {shown}", SAYS_NO)
