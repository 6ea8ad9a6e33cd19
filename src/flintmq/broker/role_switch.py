"""Carries out a change of roles that a request has asked for: a last copy, a file, a restart.

    asked ─► tables of the master copied once more ─► role saved ─► `changed`: stop and start again
                └─ a step fails: the role stays, and the figures of the broker say why

Who runs the broker starts it again on the same directory; `role_file` then finds the role.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.state.role_file import saved_role
from flintmq.broker.table_copy import TableCopy
from flintmq.errors import FlintError
from flintmq.logs import logger
from flintmq.model.light_queue import is_light
from flintmq.protocol.bodies.replica import SavedRole
from flintmq.store.files.json_tables import Table

log = logger(__name__)


def _remove_deleted(state: BrokerState) -> None:
    """Remove the queues of topics that the master has deleted: else they would be made again.

    Only now is it certain that the tables are not older than the log: the master is fenced.
    """
    queued = {span.topic for span in state.log.queues()} | {*state.log.batched}
    for topic in sorted(queued):
        if topic not in state.topics and not is_light(topic):
            log.info("the queues of %s are removed: the master has no such topic", topic)
            state.log.delete_topic(topic)


class RoleSwitch:
    """The role of one running broker."""

    def __init__(
        self, state: BrokerState, table: Table[SavedRole], copy: TableCopy, thread: Executor
    ) -> None:
        self.changed = asyncio.Event()
        """Set when another role is saved: stop the broker, and start it again."""
        self._state = state
        self._table = table
        self._copy = copy
        self._thread = thread
        self._is_running = False

    @property
    def is_asked(self) -> bool:
        """Whether a request has asked for a role and nobody works on it."""
        return self._state.next_role is not None and not self._is_running

    async def run(self) -> None:
        """Change the role that was asked for, or say why it stays."""
        state, next_role = self._state, self._state.next_role
        assert next_role is not None
        self._is_running = True
        loop = asyncio.get_running_loop()
        try:
            if next_role.copies_tables and not state.config.role.is_master:
                await self._copy.last()
                _remove_deleted(state)
            role = saved_role(state.config, next_role, self._table.load())
            await loop.run_in_executor(self._thread, self._table.save, role)
        except FlintError as failure:
            state.role_fault = str(failure)
            state.next_role, self._is_running = None, False
            state.is_read_only = state.is_fenced or not state.config.role.is_master
            log.error("the role stays %s: %s", state.config.role.value, failure)  # noqa: TRY400
        else:
            self.changed.set()
