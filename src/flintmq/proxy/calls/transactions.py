"""EndTransaction, and the questions of brokers about half messages nobody has ended.

    send ─► half message ─► EndTransaction ─► broker
    broker: not ended for long ─► a client that publishes to the topic ─► EndTransaction

A client is told that its transaction has ended when the broker has answered.  A question goes to
any client of the topic that has a stream open; without one it is asked again later.
"""

from __future__ import annotations

from typing import Any, Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.members import TransactionCheck
from flintmq.core.ask import refusal
from flintmq.errors import FlintError, Unreachable
from flintmq.logs import logger
from flintmq.model.sys_flag import TransactionType
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request as command
from flintmq.protocol.headers.transaction import EndTransaction
from flintmq.proxy.calls.sending import time_for
from flintmq.proxy.tables.halves import HalfPlace, Halves
from flintmq.proxy.tables.proxy_clients import ProxyClients
from flintmq.proxy.wire.caller import Caller
from flintmq.proxy.wire.grpc_codes import Code, Resolution
from flintmq.proxy.wire.message_classes import EndTransactionResponse, TelemetryCommand
from flintmq.proxy.wire.message_form import form_of
from flintmq.proxy.wire.resource_names import topic_of
from flintmq.proxy.wire.statuses import JAVA_NAME, StatusRefusal, ok

log = logger(__name__)

END_MS: Final = 3_000
"""How long the end of a transaction may take whose call has no deadline."""

_ON_THE_WIRE: Final = {
    Resolution.COMMIT: int(TransactionType.COMMIT),
    Resolution.ROLLBACK: int(TransactionType.ROLLBACK),
}


class Transactions:
    """Ends transactions, and asks about those that have not ended."""

    def __init__(self, engine: ClientEngine, halves: Halves) -> None:
        self._engine = engine
        self._halves = halves

    async def end_transaction(self, request: Any, caller: Caller) -> Any:
        topic = topic_of(request.topic)
        transaction_id = request.transaction_id
        if not transaction_id.strip():
            text = "transaction id cannot be empty"
            raise StatusRefusal(Code.INVALID_TRANSACTION_ID, text)
        end = _ON_THE_WIRE.get(request.resolution)
        if end is None:
            return EndTransactionResponse(status=ok())  # its broker asks again
        place = self._halves.take(topic, transaction_id)
        if place is None:
            text = f"{JAVA_NAME}cannot found transaction data"
            raise StatusRefusal(Code.INTERNAL_SERVER_ERROR, text)
        try:
            await self._end(topic, transaction_id, place, end, time_for(caller, END_MS))
        except FlintError:
            self._halves.add(topic, transaction_id, place)  # the client may try again
            raise
        return EndTransactionResponse(status=ok())

    async def _end(
        self, topic: str, transaction_id: str, place: HalfPlace, end: int, timeout_ms: int
    ) -> None:
        header = EndTransaction(
            topic=topic,
            producer_group=topic,
            tran_state_table_offset=place.queue_offset,
            commit_log_offset=place.log_offset,
            commit_or_rollback=end,
            from_transaction_check=place.is_checked,
            msg_id=place.message_id,
            transaction_id=transaction_id,
            broker_name=place.broker,
        )
        address = self._engine.routes.address(place.broker) or place.address
        if not address:
            raise Unreachable(place.broker, "no master of this broker is known")
        asked = command(RequestCode.END_TRANSACTION, header)
        reply = await self._engine.call(address, asked, timeout_ms)
        if reply.code != ResponseCode.SUCCESS:
            raise refusal(reply, address)

    def ask(self, clients: ProxyClients, topic: str, check: TransactionCheck) -> None:
        """A broker asks what became of a half message."""
        header, message = check.header, check.message
        transaction_id = header.transaction_id or header.msg_id or message.message_id
        place = HalfPlace(
            header.broker_name or message.broker,
            check.address,
            header.tran_state_table_offset,
            header.commit_log_offset,
            header.msg_id or message.message_id,
            is_checked=True,
        )
        asked = TelemetryCommand()
        question = asked.recover_orphaned_transaction_command
        question.transaction_id = transaction_id
        question.message.CopyFrom(form_of(message, topic, now_ms=self._engine.wall()))
        reachable = clients.reachable(topic=topic)
        start = int(self._engine.chance() * len(reachable))
        for client in reachable[start:] + reachable[:start]:
            if client.outbox is not None and client.outbox.put(asked):
                self._halves.add(topic, transaction_id, place)
                return
        log.info("%s: nobody can be asked about the half message %s", topic, transaction_id)
