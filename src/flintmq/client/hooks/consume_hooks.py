"""Code of the user around every call of a listener, and on every answer to a pull.

A consume hook sees a batch before its listener and, with how it went, after it; both on the
thread or loop that the listener runs on.  A filter hook sees what a pull brought and says what of
it is wanted; what it leaves out counts as consumed.  A hook that raises is logged and changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from flintmq.core.group.listener_results import ReturnKind
from flintmq.logs import logger
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef

log = logger(__name__)

RETURN_KIND = "ConsumeContextType"
"""The property under which hooks and traces of RocketMQ look for how a listener ended."""


@dataclass(slots=True)
class ConsumeContext:
    """One call of a listener.  ``properties`` is for hooks, to keep what they need until after.

    ``kind``, ``status``, ``spent_ms`` and ``error`` are known after the listener ended; the kind
    is also in ``properties``, as in RocketMQ.
    """

    group: str
    namespace: str
    queue: QueueRef
    messages: Sequence[ReceivedMessage]
    started_ms: int
    kind: ReturnKind | None = None
    status: str = ""
    spent_ms: int = 0
    error: BaseException | None = None
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def success(self) -> bool:
        return self.kind is ReturnKind.SUCCESS


class ConsumeHook(Protocol):
    """What a program gives as ``consume_hooks``."""

    def before(self, context: ConsumeContext) -> None:
        """A listener is about to get these messages."""

    def after(self, context: ConsumeContext) -> None:
        """The listener ended; ``context`` says how."""


FilterHook: TypeAlias = Callable[[QueueRef, Sequence[ReceivedMessage]], Sequence[ReceivedMessage]]
"""What a program gives as ``filter_hooks``: of these messages, those that are wanted."""


def run_before(hooks: Sequence[ConsumeHook], context: ConsumeContext) -> None:
    for hook in hooks:
        try:
            hook.before(context)
        except Exception:
            log.exception("the hook %r failed before messages of %s", hook, context.queue)


def run_after(hooks: Sequence[ConsumeHook], context: ConsumeContext) -> None:
    for hook in hooks:
        try:
            hook.after(context)
        except Exception:
            log.exception("the hook %r failed after messages of %s", hook, context.queue)


def run_filters(
    hooks: Sequence[FilterHook], queue: QueueRef, messages: list[ReceivedMessage]
) -> list[ReceivedMessage]:
    for hook in hooks:
        try:
            messages = list(hook(queue, messages))
        except Exception:
            log.exception("the filter %r failed on messages of %s", hook, queue)
    return messages
