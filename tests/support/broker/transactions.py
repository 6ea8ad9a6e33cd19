"""Half messages in a `World`, a producer that has them, and how it ends them."""

from __future__ import annotations

from typing import Any

from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.model.sys_flag import TransactionType
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.transaction import EndTransaction
from flintmq.store.message_log import Appended
from support.broker.heartbeats import heartbeat
from support.broker.queued import message
from support.broker.world import World

TOPIC = "orders"
GROUP = "tx-producers"

COMMIT = int(TransactionType.COMMIT)
ROLLBACK = int(TransactionType.ROLLBACK)


def put_half(world: World, body: bytes = b"hello", **properties: Any) -> Appended:
    """Store a half message as a transactional producer's send would."""
    usual = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": f"id-{body.decode()}"}
    new = message(world, TOPIC, body, queue_id=2, **(usual | properties))
    new.sys_flag = int(TransactionType.PREPARED)
    appended = world.state.halves.append(world.state, new, world.now_ms)
    world.settle()
    return appended


def end(world: World, half: Appended, how: int = COMMIT, **changed: Any) -> Answer | None:
    """Commit or roll back a half message."""
    fields: dict[str, Any] = {
        "producer_group": GROUP,
        "tran_state_table_offset": half.queue_offset,
        "commit_log_offset": half.log_offset,
        "commit_or_rollback": how,
        "msg_id": "id",
    }
    header = EndTransaction(**(fields | changed))
    return world.ask(RequestCode.END_TRANSACTION, header)


def join(world: World, address: str = "127.0.0.1:50000") -> Peer:
    """A producer of the group connects."""
    peer = Peer(address)
    said = heartbeat(f"client@{address}", producers=(GROUP,))
    world.state.clients.heartbeat(said, peer, "JAVA", 479, world.now_ms)
    return peer
