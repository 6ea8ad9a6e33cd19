"""A request to a page: who asks, and what the address says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from flintmq.console.guard.sessions import Session
from flintmq.console.showing.site import Site
from flintmq.console.watching.cluster_view import ClusterView
from flintmq.errors import FlintError

TEXT_MAX: Final = 2_000
"""Characters of a field of an address; names have at most 255, SQL92 conditions some hundred."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request with its session."""

    request: Request
    session: Session
    site: Site

    @property
    def cluster(self) -> ClusterView:
        return self.session.cluster

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    def text(self, name: str) -> str:
        """A field of the address; empty when it is not there."""
        return self.query.get(name, "").strip()[:TEXT_MAX]

    def number(self, name: str, *, default: int, low: int = 0, high: int = 2**63 - 1) -> int:
        """A whole number within its limits; the default for anything else."""
        text = self.text(name)
        if not (text.isascii() and text.isdigit()):
            return default
        return min(max(int(text[:19]), low), high)

    def audit(self, action: str, target: str, details: str, outcome: str) -> None:
        """Write down who changed what, and how it ended."""
        assert self.site.audit is not None, "changes need an audit log"
        client = self.request.client
        self.site.audit.record_change(
            user=self.session.person,
            address="" if client is None else f"{client.host}:{client.port}",
            action=action,
            target=target,
            details=details,
            outcome=outcome,
        )

    @contextmanager
    def audited(self, action: str, target: str, details: str) -> Iterator[None]:
        """Write down a change that is made in here; also one that fails."""
        outcome = "failed"
        try:
            yield
            outcome = "done"
        except FlintError as error:
            outcome = f"failed: {error}"
            raise
        finally:
            self.audit(action, target, details, outcome)

    def is_on(self, name: str) -> bool:
        """Whether a box of a form is ticked."""
        return self.text(name) == "1"
