"""Members of a group that pop, against the simulated broker: what `Member` does not do for them."""

from __future__ import annotations

from flintmq.core.consumer.member_actions import Action
from flintmq.core.group.actions import AskAssignment
from flintmq.core.pop.pop_request import (
    POP_PATIENCE_MS,
    SETTLE_TIMEOUT_MS,
    Pop,
    ack_request,
    batch_ack_request,
    hide_request,
    pop_refusal,
    pop_request,
    read_hidden,
    read_popped,
)
from flintmq.core.pop.popped_message import AckPopped, HidePopped
from flintmq.errors import FlintError
from flintmq.protocol.command import Command
from support.core.simulated_broker import ADDRESS
from support.core.simulated_members import Member


class PoppingMember(Member):
    """One process of a group that pops.  It is shared out by nobody: all pop everywhere."""

    def _do(self, action: Action) -> None:
        match action:
            case AskAssignment():
                now_ms = self._clock.now_ms
                self._act(self.consumer.assigned(action, None, now_ms))
            case Pop():
                self._do_pop(action)
            case AckPopped():
                self._do_ack(action)
            case HidePopped():
                self._do_hide(action)
            case _:
                super()._do(action)

    def _do_pop(self, pop: Pop) -> None:
        consumer, clock = self.consumer, self._clock
        self._call(
            pop_request(pop, self._group),
            pop.hold_ms + POP_PATIENCE_MS,
            lambda reply: self._act(
                consumer.popped(pop, read_popped(reply, pop, ADDRESS), clock.now_ms)
            ),
            lambda error: self._act(consumer.pop_failed(pop, error, clock.now_ms)),
        )

    def _do_ack(self, ask: AckPopped) -> None:
        consumer, clock, count = self.consumer, self._clock, len(ask.entries)
        popped = [(ask.topic, entry.handle) for entry in ask.entries]
        if count == 1:
            wanted = ack_request(self._group, *popped[0])
        else:
            wanted = batch_ack_request(self._group, ask.broker, popped)

        def done(reply: Command) -> None:
            if reply.code:
                raise pop_refusal(reply, ADDRESS)
            self._act(consumer.acked(ask, [None] * count, clock.now_ms))

        def failed(error: FlintError) -> None:
            self._act(consumer.acked(ask, [str(error)] * count, clock.now_ms))

        self._call(wanted, SETTLE_TIMEOUT_MS, done, failed)

    def _do_hide(self, ask: HidePopped) -> None:
        consumer, clock, handle = self.consumer, self._clock, ask.entry.handle
        self._call(
            hide_request(self._group, ask.topic, handle, ask.invisible_ms),
            SETTLE_TIMEOUT_MS,
            lambda reply: self._act(
                consumer.hidden(ask, read_hidden(reply, handle, ADDRESS), clock.now_ms)
            ),
            lambda error: self._act(consumer.hide_failed(ask, str(error), clock.now_ms)),
        )
