"""Many messages in few requests: one after the other, and what each of them comes to.

Every request has the whole timeout.  When not the first of them fails it is `PartlySent`: the
messages of those before it are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flintmq.core.conversation import PausingConversation
from flintmq.core.producer.publisher import Publisher, Watch
from flintmq.core.producer.receipt import SendReceipt, receipts_of_batch
from flintmq.core.producer.send_draft import Draft
from flintmq.core.routes import Routes
from flintmq.errors import FlintError, NoRoute, PartlySent
from flintmq.model.queue import QueueRef


def send_batches(
    publisher: Publisher,
    routes: Routes,
    drafts: Sequence[Draft],
    timeout_ms: int,
    *,
    queue: QueueRef | None = None,
    watch: Callable[[int, int], Watch | None],
) -> PausingConversation[list[SendReceipt]]:
    """Send to ``queue``, or wherever it is the turn; a receipt for each message.

    ``watch(start, stop)`` is asked who wants to see the tries of these messages.
    """
    receipts: list[SendReceipt] = []
    for draft in drafts:
        sent = len(receipts)
        seen_by = watch(sent, sent + draft.count)
        try:
            if queue is None:
                queues = routes.publish_queues(draft.topic)
                if not queues:
                    raise NoRoute(draft.topic, "it has no queue any more that may be written")
                receipt = yield from publisher.send(draft, queues, timeout_ms, seen_by)
            else:
                receipt = yield from publisher.send_to(draft, queue, timeout_ms, seen_by)
        except FlintError as error:
            if not sent:
                raise
            whole = sum(each.count for each in drafts)
            raise PartlySent(draft.topic, sent, whole, str(error)) from error
        receipts += receipts_of_batch(receipt)
    return receipts
