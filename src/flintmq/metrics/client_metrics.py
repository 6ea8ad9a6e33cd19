"""The metrics of a program that sends and consumes: one object for all its clients.

    metrics = ClientMetrics()
    Producer("shop", metrics=metrics, …)      PushConsumer("billing", …, metrics=metrics, …)
    metrics.serve("127.0.0.1:9100")           or .text(), or .push("gateway:9091", "job")

Names are those of RocketMQ's gRPC clients, and ours for the rest.  A send adds one time to a table,
a call of a listener too; everything else is asked of the clients when somebody looks.

Invariant: a client that stopped leaves its counts and takes its gauges with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from flintmq.errors import InvalidSetting
from flintmq.metrics.exposition import exposition, push_text, require_prometheus
from flintmq.metrics.families import (
    Distribution,
    Family,
    Samples,
    Snapshot,
    Work,
    counter,
    gauge,
    histogram,
)
from flintmq.metrics.pages import MetricsServer, Source, serve_metrics
from flintmq.metrics.producer_counts import FAMILIES as SEND_FAMILIES
from flintmq.metrics.producer_counts import ProducerCounts
from flintmq.metrics.pull_counts import FAMILIES as PULL_FAMILIES
from flintmq.metrics.pull_counts import PullCounts
from flintmq.metrics.run_counts import FAMILIES as RUN_FAMILIES
from flintmq.metrics.run_counts import RunCounts
from flintmq.metrics.run_reports import PATH, encode_reports
from flintmq.net.address import Address

PROCESS_BOUNDS_MS: Final = (1, 5, 10, 100, 10_000, 60_000)

PROCESS_TIME: Final = histogram(
    "rocketmq_process_time_milliseconds",
    "One call of a listener.",
    PROCESS_BOUNDS_MS,
    *("topic", "client_id", "consumer_group", "invocation_status"),
)
CONSUMED: Final = counter(
    "flintmq_client_consumed_messages_total",
    "Messages that listeners were called with, by what came of them.",
    *("topic", "client_id", "consumer_group", "invocation_status"),
)
SENT_BACK: Final = counter(
    "flintmq_client_sent_back_total",
    "Messages sent back to be redelivered (retry), or given up (dead_letter).",
    *("topic", "client_id", "consumer_group", "target"),
)
CACHED_MESSAGES: Final = gauge(
    "rocketmq_consumer_cached_messages",
    "Messages pulled that wait for their listener.",
    *("topic", "client_id", "consumer_group"),
)
CACHED_BYTES: Final = gauge(
    "rocketmq_consumer_cached_bytes",
    "Bytes of their bodies.",
    *("topic", "client_id", "consumer_group"),
)
QUEUES: Final = gauge(
    "flintmq_client_queues", "Queues of this member.", "topic", "client_id", "consumer_group"
)
BAD_RECORDS: Final = counter(
    "flintmq_client_bad_records_total",
    "Records that could not be decoded.",
    *("client_id", "consumer_group"),
)

FAMILIES: tuple[Family, ...] = (
    *SEND_FAMILIES,
    PROCESS_TIME,
    CONSUMED,
    SENT_BACK,
    *PULL_FAMILIES,
    CACHED_MESSAGES,
    CACHED_BYTES,
    QUEUES,
    BAD_RECORDS,
)

RUNS_MAX: Final = 100
"""Queries of Spark that are remembered; of those that ended, the oldest make room."""

_STATUS: Final = ("failure", "success")


class ConsumerCounts:
    """What one consumer counts, on its loop; ``cached`` asks it for what it holds now."""

    def __init__(self, group: str) -> None:
        self.client_id = ""
        self.group = group
        self.cached: Callable[[], Iterable[tuple[str, int, int, int]]] | None = None
        """Topic, queues, messages and bytes cached; None while it does not run."""
        self.bad_count = 0
        self.pulls = PullCounts()
        """Of a consumer that pulls by itself."""
        self._times: dict[tuple[str, bool], Distribution] = {}
        self._messages: dict[tuple[str, bool], int] = {}
        self._sent_back: dict[tuple[str, str], int] = {}

    def called(self, topic: str, well: int, failed: int, took_ns: int) -> None:
        """A listener ended, and some of its messages, or none, have to come again."""
        self.function_ended(topic, took_ns, is_well=not failed)
        for is_well, count in ((True, well), (False, failed)):
            if count:
                key = (topic, is_well)
                self._messages[key] = self._messages.get(key, 0) + count

    def function_ended(self, topic: str, took_ns: int, *, is_well: bool) -> None:
        """The function of a scheduled pull ended."""
        times = self._times.get((topic, is_well))
        if times is None:
            times = self._times[topic, is_well] = Distribution(PROCESS_BOUNDS_MS)
        times.add(took_ns / 1e6)

    def sent_back(self, topic: str, target: str) -> None:
        key = (topic, target)
        self._sent_back[key] = self._sent_back.get(key, 0) + 1

    def fill(self, samples: dict[Family, Samples]) -> None:
        who = (self.client_id, self.group)
        for (topic, is_well), times in list(self._times.items()):
            samples[PROCESS_TIME].add(times, topic, *who, _STATUS[is_well])
        for (topic, is_well), count in list(self._messages.items()):
            samples[CONSUMED].add(count, topic, *who, _STATUS[is_well])
        for (topic, target), count in list(self._sent_back.items()):
            samples[SENT_BACK].add(count, topic, *who, target)
        cached = self.cached
        if cached is not None:
            for topic, queues, messages, size_bytes in cached():
                samples[QUEUES].add(queues, topic, *who)
                samples[CACHED_MESSAGES].add(messages, topic, *who)
                samples[CACHED_BYTES].add(size_bytes, topic, *who)
        self.pulls.fill(samples, who)
        samples[BAD_RECORDS].add(self.bad_count, *who)


T = TypeVar("T", ProducerCounts, ConsumerCounts)


class ClientMetrics:
    """All that the clients of a program count.  Any thread may use it."""

    def __init__(self) -> None:
        require_prometheus()
        self._lock = threading.Lock()
        self._clients: list[ProducerCounts | ConsumerCounts] = []
        self._runs: dict[tuple[str, str], RunCounts] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: MetricsServer | None = None

    def producer(self) -> ProducerCounts:
        """For a producer that was made with these metrics."""
        return self._add(ProducerCounts())

    def consumer(self, group: str) -> ConsumerCounts:
        """For a consumer that was made with these metrics."""
        return self._add(ConsumerCounts(group))

    def spark_run(self, name: str, kind: str, now_ms: int) -> RunCounts:
        """For a query of Spark; one that begins anew goes on counting where it was."""
        with self._lock:
            found = self._runs.pop((name, kind), None)
            if found is None:
                found = RunCounts(name, kind, now_ms)
            else:
                found.began(now_ms)
            self._runs[name, kind] = found
            over = [key for key, each in self._runs.items() if not each.is_active]
            for key in over[: max(0, len(self._runs) - RUNS_MAX)]:
                del self._runs[key]
        return found

    def _add(self, counts: T) -> T:
        with self._lock:
            self._clients.append(counts)
        return counts

    # Looking

    def text(self, accept: str = "") -> bytes:
        """All metrics, as Prometheus reads them."""
        return exposition([self._snapshot()], accept).body

    def push(self, gateway: str, job: str) -> None:
        """Send all metrics to a push gateway, ``host:port``; for programs that end soon."""
        push_text([self._snapshot()], gateway, job)

    def serve(self, listen: str) -> str:
        """Serve /metrics, /healthz and /readyz in a thread until `close`; say where."""
        if self._thread is not None:
            raise InvalidSetting("metrics", listen, "they are served already")
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=loop.run_forever, name="flintmq-client-metrics", daemon=True
        )
        self._thread.start()
        source = Source(dict, self._samples, list)
        pages = {PATH: self._reports}
        starting = asyncio.run_coroutine_threadsafe(
            serve_metrics(Address.parse(listen), [source], pages), loop
        )
        try:
            self._server = starting.result()
        except BaseException:
            self.close()
            raise
        return str(self._server.address)

    def close(self) -> None:
        """Serve no more."""
        loop, thread, server = self._loop, self._thread, self._server
        self._loop = self._thread = self._server = None
        if loop is None or thread is None:
            return
        if server is not None:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _snapshot(self) -> Snapshot:
        return Snapshot({}, [samples for samples in self._samples() if samples is not None])

    def _samples(self) -> Work:
        samples = {family: Samples(family) for family in (*FAMILIES, *RUN_FAMILIES)}
        with self._lock:
            clients = [*self._clients, *self._runs.values()]
        for client in clients:
            client.fill(samples)
            yield None
        yield from samples.values()

    def _reports(self) -> bytes:
        with self._lock:
            runs = list(self._runs.values())
        return encode_reports([each.report() for each in runs])
