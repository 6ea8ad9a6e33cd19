"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.popping.pop_calls import PopCalls
from flintmq.errors import BrokerRefused, FlintError
from flintmq.protocol.pop.receipts import ReceiptHandle
from flintmq.proxy.calls.receiving import INVISIBLE_MS_MAX
from flintmq.proxy.calls.renewing import Renewing
from flintmq.proxy.wire.caller import Caller
from flintmq.proxy.wire.grpc_codes import Code
from flintmq.proxy.wire.message_classes import (
    AckMessageResponse,
    ChangeInvisibleDurationResponse,
    ForwardMessageToDeadLetterQueueResponse,
)
from flintmq.proxy.wire.resource_names import group_of, topic_of
from flintmq.proxy.wire.statuses import JAVA_NAME, StatusRefusal, ok, refusal_of, status

ENTRIES_MAX: Final = 1_000
"""Acknowledgements of one request."""


class Settling:
    """Settles what clients were given."""

    def __init__(self, engine: ClientEngine, pops: PopCalls, renewing: Renewing) -> None:
        self._engine = engine
        self._pops = pops
        self._renewing = renewing

    async def ack_message(self, request: Any, _caller: Caller) -> Any:
        topic, group = topic_of(request.topic), group_of(request.group)
        if not request.entries:
            raise StatusRefusal(Code.INTERNAL_SERVER_ERROR, "ack message result is empty")
        if len(request.entries) > ENTRIES_MAX:
            raise StatusRefusal(Code.BAD_REQUEST, f"too many entries, max is {ENTRIES_MAX}")
        statuses = await asyncio.gather(
            *(self._ack(group, topic, entry.receipt_handle) for entry in request.entries)
        )
        answer = AckMessageResponse()
        for entry, told in zip(request.entries, statuses, strict=True):
            answer.entries.add(
                message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=told
            )
        codes = {told.code for told in statuses}
        common = Code(codes.pop()) if len(codes) == 1 else Code.MULTIPLE_RESULTS
        answer.status.CopyFrom(status(common, common.name))
        return answer

    async def change_invisible_duration(self, request: Any, _caller: Caller) -> Any:
        topic, group = topic_of(request.topic), group_of(request.group)
        invisible_ms = request.invisible_duration.ToMilliseconds()
        if not 0 <= invisible_ms <= INVISIBLE_MS_MAX:
            side = "small. min is 0" if invisible_ms < 0 else f"large. max is {INVISIBLE_MS_MAX}"
            raise StatusRefusal(Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too {side}")
        async with self._renewing.settling(group, request.receipt_handle) as handle:
            self._check_time(handle)
            changed = await self._pops.hide(group, topic, handle, invisible_ms)
        return ChangeInvisibleDurationResponse(status=ok(), receipt_handle=changed.text)

    async def forward(self, request: Any, _caller: Caller) -> Any:
        topic, group = topic_of(request.topic), group_of(request.group)
        async with self._renewing.settling(group, request.receipt_handle) as handle:
            if handle.log_offset is None:
                text = f"{JAVA_NAME}commit log offset is empty"
                raise StatusRefusal(Code.INVALID_RECEIPT_HANDLE, text)
            await self._pops.bury(group, topic, handle, request.message_id)
        return ForwardMessageToDeadLetterQueueResponse(status=status(Code.OK, "0"))

    async def _ack(self, group: str, topic: str, text: str) -> Any:
        try:
            async with self._renewing.settling(group, text) as handle:
                self._check_time(handle)
                await self._pops.ack(group, topic, handle)
        except StatusRefusal as refused:
            return refused.status
        except BrokerRefused:
            return status(Code.INTERNAL_SERVER_ERROR, "ack failed: status is abnormal")
        except FlintError as error:
            return refusal_of(error).status
        return ok()

    def _check_time(self, handle: ReceiptHandle) -> None:
        """A message whose time is over may be with somebody else already."""
        if handle.expires_ms <= self._engine.wall():
            text = f"{JAVA_NAME}receipt handle is expired"
            raise StatusRefusal(Code.INVALID_RECEIPT_HANDLE, text)
