"""Names that a shell completes: topics and groups of the cluster that the command line names.

A shell waits while we ask, so a cluster has `PATIENCE_MS`; one that does not answer, or refuses,
completes nothing and says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from flintmq.cli.shared.cluster_options import settings_of
from flintmq.errors import FlintError

if TYPE_CHECKING:
    from flintmq.client.engine.client_config import ClientSettings

PATIENCE_MS: Final = 500
"""For one call; longer than that feels like a shell that hangs."""


def complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    """Topics that begin like this; retry, dead letter and system topics once a ``%`` is typed."""
    from flintmq.client.admin import Admin
    from flintmq.core.admin.topics import TopicKind

    try:
        with Admin(**_patient(context)) as admin:
            topics = admin.topics()
    except FlintError:
        return []
    return [
        topic.name
        for topic in topics
        if topic.name.startswith(incomplete)
        and (topic.kind is TopicKind.NORMAL or incomplete.startswith("%"))
    ]


def complete_group(context: typer.Context, incomplete: str) -> list[str]:
    """Groups that begin like this, without those of the system."""
    from flintmq.client.admin import Admin

    try:
        with Admin(**_patient(context)) as admin:
            groups = admin.groups()
    except FlintError:
        return []
    return [each.name for each in groups if each.name.startswith(incomplete) and not each.is_system]


def _patient(context: typer.Context) -> ClientSettings:
    settings = settings_of(context)
    return {**settings, "call_timeout_ms": PATIENCE_MS, "connect_ms": PATIENCE_MS}
