"""How a store that refuses appends becomes writable again.

    a turn failed    what it left behind is wiped
    a sync failed    what was not yet durable is written once more, since the system may have
                     called its pages clean; bytes that are lost end the store

Refused: a failure that does not pass, see `failure`.
"""

from __future__ import annotations

from flintmq.errors import DiskFailed
from flintmq.store.files.failure import Health
from flintmq.store.files.group_commit import GroupCommit
from flintmq.store.record_lookup import is_whole
from flintmq.store.recovery.parts import StoreParts

MEND_INTERVAL_MS = 100
"""How often a store that refuses tries to be writable again."""


class Mending:
    """The repairs of one open store."""

    def __init__(self, parts: StoreParts, commit: GroupCommit, health: Health) -> None:
        self.must_write_again = False
        """A sync failed: the bytes it was about are to be written once more."""
        self._parts = parts
        self._commit = commit
        self._health = health
        self._again_ms = 0

    def try_again(self, now_ms: int) -> None:
        """Become writable again, or raise why not."""
        health = self._health
        assert health.why_not is not None
        if health.failed is not None or now_ms < self._again_ms:
            raise health.why_not
        self._again_ms = now_ms + MEND_INTERVAL_MS
        try:
            self.mend()
        except DiskFailed as failure:
            raise health.refuse(failure) from failure

    def wipe(self) -> None:
        """Wipe what failed turns left behind."""
        self._parts.log.mend()
        self._parts.dispatch.mend()

    def mend(self) -> None:
        """Bring the files into order; `DiskFailed` when that fails too."""
        self.wipe()
        if self.must_write_again:
            log, durable_to = self._parts.log, self._commit.durable_to
            if not is_whole(log, durable_to, log.end_offset):
                reason = f"what was written after byte {durable_to} is lost; start again"
                raise DiskFailed(str(self._parts.directory), "sync", reason)
            log.write_again(durable_to)
            self.must_write_again = False
        self._parts.queues.flush()
        self._health.why_not = None
