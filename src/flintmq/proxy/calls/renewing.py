"""Renews the receipts of push consumers while their clients live, and gives them back after.

The times are RocketMQ's.  A client that dies without a word is noticed by its heartbeats; what it
worked on comes back when the receipt it has now ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.popping.pop_calls import PopCalls
from flintmq.errors import FlintError, MalformedHeader
from flintmq.logs import logger
from flintmq.protocol.pop.receipts import ReceiptHandle
from flintmq.proxy.tables.kept_handles import (
    FAILURES_MAX,
    GIVEN_BACK_MS,
    HANDLES_MAX,
    KEPT_MS,
    LOOK_MS,
    KeptHandle,
    KeptHandles,
)
from flintmq.proxy.wire.grpc_codes import Code
from flintmq.proxy.wire.statuses import JAVA_NAME, StatusRefusal

log = logger(__name__)

AT_ONCE_MAX: Final = 64
"""Receipts renewed at the same time."""


class Renewing:
    """The receipts that are kept, and the task that renews them."""

    def __init__(self, engine: ClientEngine, pops: PopCalls) -> None:
        self._engine = engine
        self._pops = pops
        self._kept = KeptHandles()
        self._is_full = False

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, kept: KeptHandle) -> None:
        is_full = not self._kept.add(kept)
        if is_full and not self._is_full:
            log.warning("%d receipts are kept: no more are renewed for now", HANDLES_MAX)
        self._is_full = is_full

    def forget(self, group: str, text: str) -> None:
        kept = self._kept.find(group, text)
        if kept is not None:
            self._kept.drop(kept)

    @asynccontextmanager
    async def settling(self, group: str, text: str) -> AsyncIterator[ReceiptHandle]:
        """The handle that counts for one that a client gave.

        It is renewed no more once the block ends well; where it fails, the client tries again.
        """
        kept = self._kept.find(group, text)
        if kept is None:
            yield read_handle(text)
            return
        async with kept.lock:
            yield kept.handle
            self._kept.drop(kept)

    async def run(self) -> None:
        """Renew what ends soon, again and again."""
        while True:
            await self._engine.timing.sleep(LOOK_MS)
            await self.look()

    async def look(self) -> None:
        """Renew what ends soon, once."""
        ending = self._kept.ending(self._engine.wall())
        for at in range(0, len(ending), AT_ONCE_MAX):
            await asyncio.gather(*map(self._renew, ending[at : at + AT_ONCE_MAX]))

    async def give_back(self, client_id: str) -> None:
        """A client has gone: show to others what it worked on."""
        await self._give_back(self._kept.of_client(client_id))

    async def _give_back(self, chosen: Iterable[KeptHandle]) -> None:
        for kept in chosen:
            async with kept.lock:
                if not self._kept.has(kept):
                    continue
                self._kept.drop(kept)
                try:
                    await self._pops.hide(kept.group, kept.topic, kept.handle, GIVEN_BACK_MS)
                except FlintError as error:
                    log.info("%s: a message comes back late: %s", kept.topic, error)

    async def _renew(self, kept: KeptHandle) -> None:
        async with kept.lock:
            now_ms = self._engine.wall()
            if not self._kept.has(kept):
                return
            if now_ms - kept.popped_ms >= KEPT_MS or kept.handle.expires_ms <= now_ms:
                self._kept.drop(kept)  # it comes back by itself
                return
            try:
                kept.handle = await self._pops.hide(
                    kept.group, kept.topic, kept.handle, kept.next_step_ms
                )
            except FlintError as error:
                kept.failures += 1
                log.info("%s: a receipt is not renewed: %s", kept.topic, error)
                if kept.failures >= FAILURES_MAX:
                    self._kept.drop(kept)
            else:
                kept.renewals, kept.failures = kept.renewals + 1, 0


def read_handle(text: str) -> ReceiptHandle:
    """A handle of a client; `StatusRefusal` for what is none."""
    try:
        return ReceiptHandle.parse(text)
    except MalformedHeader as error:
        raise StatusRefusal(Code.INVALID_RECEIPT_HANDLE, f"{JAVA_NAME}{error.reason}") from None
