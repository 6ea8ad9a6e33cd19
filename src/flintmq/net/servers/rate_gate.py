"""Requests a second of one address: what comes beyond is refused before anybody reads it closely.

    frames of a read ─┬─ the address has something left ─► session; then all of them are paid
                      └─ it is in debt ─► SYSTEM_BUSY (2), for a pull FLOW_CONTROL (215)

All connections of an address share one balance, and reconnecting does not fill it.  Heartbeats and
goodbyes are always served: a client that may send less must not lose its place in its group.

Invariant: over time an address gets no more requests served than the rate, plus one second's worth
and one read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flintmq.access.token_bucket import TokenBucket
from flintmq.model.host import Host
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.session import Session
from flintmq.net.refusals import Refusals
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, answer
from flintmq.protocol.frame import Frame
from flintmq.protocol.wire import decode_command, encode_command

ADDRESSES_MAX: Final = 10_000
"""Addresses remembered at once; the oldest is forgotten first."""

LIMIT: Final = "requestsPerSecondMax"

_ALWAYS: Final = frozenset({int(RequestCode.HEART_BEAT), int(RequestCode.UNREGISTER_CLIENT)})
_PULLS: Final = frozenset({int(RequestCode.PULL_MESSAGE), int(RequestCode.LITE_PULL_MESSAGE)})


class RequestRates:
    """The balances of all addresses.  ``per_second`` is the rate now; 0 is none."""

    def __init__(
        self, per_second: Callable[[], int], clock: Callable[[], int], refusals: Refusals
    ) -> None:
        self.per_second = per_second
        self.now_ms = clock
        self.refusals = refusals
        self._rate = 0
        self._buckets: dict[str, TokenBucket] = {}

    def bucket(self, host: str, rate: int) -> TokenBucket:
        """The balance of an address.  Where the rate has changed, all begin again."""
        if rate != self._rate:
            self._rate = rate
            self._buckets.clear()
        bucket = self._buckets.get(host)
        if bucket is None:
            if len(self._buckets) >= ADDRESSES_MAX:
                del self._buckets[next(iter(self._buckets))]
            bucket = self._buckets[host] = TokenBucket(rate, self.now_ms())
        return bucket


class RateGate:
    """One connection, before its session."""

    def __init__(self, session: Session, channel: Channel, rates: RequestRates) -> None:
        self._session = session
        self._channel = channel
        self._rates = rates
        self._host = Host.parse(channel.peer).ip

    def frames(self, frames: list[Frame]) -> None:
        rate = self._rates.per_second()
        if not rate:
            self._session.frames(frames)
            return
        bucket = self._rates.bucket(self._host, rate)
        if not bucket.has_any(self._rates.now_ms()):
            frames = [frame for frame in frames if not self._refuse(frame)]
        bucket.pay(len(frames))
        if frames:
            self._session.frames(frames)
            bucket.pay(-self._channel.frames_behind)  # they come again

    def lost(self) -> None:
        self._session.lost()

    async def finish(self) -> None:
        await self._session.finish()

    def _refuse(self, frame: Frame) -> bool:
        """Refuse a request; False for what is served in any case."""
        command = decode_command(frame)
        if command.is_answer or command.code in _ALWAYS:
            return False
        self._rates.refusals.count(LIMIT)
        if not command.is_oneway:
            self._channel.write((encode_command(self._refusal(command)),))
        return True

    def _refusal(self, command: Command) -> Command:
        code = ResponseCode.SYSTEM_BUSY
        if command.code in _PULLS:
            code = ResponseCode.FLOW_CONTROL
        remark = (
            f"[FLOWCONTROL]{self._host} sends more than {self._rates.per_second()} requests a "
            f"second ({LIMIT}), try again later"
        )
        return answer(command, code, remark=remark)
