"""`flintmq perf`: a quick load, to see what a cluster and this machine do.

`send` sends messages of one size and measures each send; `consume` reads a topic from its start, or
what comes, and measures from birth to arrival.  Both are bounded in messages and in seconds, and
tell the CPU time of this process: where it is near the elapsed time, this process is the limit and
not the broker.  Benchmarks that compare are in ``benchmarks/``.
"""

from __future__ import annotations

import threading
import time
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.output import (
    FAILED,
    Output,
    OutputOption,
    exit_with,
    print_json,
)
from flintmq.cli.shared.spark_job import stopping
from flintmq.cli.shared.tables import print_fields
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import FlintError
from flintmq.model.message import BODY_BYTES_MAX, Message
from flintmq.net.clock import wall_ms
from flintmq.reports.amounts import rate_text, size_text

if TYPE_CHECKING:
    from flintmq.client.producer.threaded_producer import Producer

app = typer.Typer(
    help="Put a bounded load on a topic and measure it.", no_args_is_help=True, epilog=EXIT_CODES
)

GROUP: Final = "flintmq-perf"
"""Producer and consumer group of the load; nothing is committed for it."""

COUNT_MAX: Final = 5_000_000
"""Messages of one run: each leaves a latency of 8 bytes in memory."""

SECONDS_MAX: Final = 3_600
THREADS_MAX: Final = 64
BATCH_MAX: Final = 1_024

POLL_MS: Final = 200
QUIET_S: Final = 1.0
"""After so long without a message all that was in a topic is read."""
FAILURES_MAX: Final = 100
"""Failed sends after which a run ends.  Before the first message is stored, one is enough: the
cluster cannot be reached, or does not serve this user."""

Count = Annotated[
    int, typer.Option("--count", "-c", min=1, max=COUNT_MAX, help="Messages at most.")
]
Seconds = Annotated[
    float, typer.Option("--seconds", min=0.1, max=SECONDS_MAX, help="Seconds at most.")
]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Which topic.")]


@dataclass(slots=True)
class LoadResult:
    """What was measured.  Latencies are in milliseconds."""

    what: str
    messages: int = 0
    body_bytes: int = 0
    failed: int = 0
    error: str | None = None
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    latencies_ms: array[float] = field(default_factory=lambda: array("d"))

    def facts(self) -> dict[str, object]:
        """The figures of a run."""
        sorted_ms = sorted(self.latencies_ms)
        per_s = self.messages / self.elapsed_s if self.elapsed_s else 0.0
        return {
            "what": self.what,
            "messages": self.messages,
            "failed": self.failed,
            "seconds": round(self.elapsed_s, 3),
            "messages_per_s": round(per_s, 1),
            "bytes_per_s": round(self.body_bytes / self.elapsed_s) if self.elapsed_s else 0,
            "latency_p50_ms": quantile(sorted_ms, 0.5),
            "latency_p99_ms": quantile(sorted_ms, 0.99),
            "latency_max_ms": quantile(sorted_ms, 1.0),
            "cpu_s": round(self.cpu_s, 3),
            "cpu_share": round(self.cpu_s / self.elapsed_s, 3) if self.elapsed_s else None,
            "cpu_us_per_message": (
                round(1e6 * self.cpu_s / self.messages, 1) if self.messages else None
            ),
        }


def quantile(sorted_values: list[float], share: float) -> float | None:
    """The smallest value that at least this share of all values does not exceed."""
    if not sorted_values:
        return None
    at = max(0, -(-int(share * 1e6) * len(sorted_values) // 1_000_000) - 1)
    return round(sorted_values[min(at, len(sorted_values) - 1)], 3)


@app.command("send")
@connected
def perf_send(
    settings: ClientSettings,
    topic: TopicArgument,
    count: Count = 10_000,
    seconds: Seconds = 30.0,
    size: Annotated[
        int, typer.Option("--size", "-s", min=0, max=BODY_BYTES_MAX, help="Bytes of a body.")
    ] = 1_024,
    threads: Annotated[
        int, typer.Option("--threads", min=1, max=THREADS_MAX, help="Senders at the same time.")
    ] = 4,
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=BATCH_MAX, help="Messages of one request.")
    ] = 1,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", min=0.1, help="Messages a second at most; else all.", show_default=False
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send messages of one size to a topic, and show rate, latency and CPU.

    The messages stay in the topic: take one of its own for it.

    Examples:
        flintmq perf send load-test --count 50000 --size 1024 --threads 8
        flintmq perf send load-test --rate 200 --seconds 60 --json
    """
    from flintmq.client.producer.threaded_producer import Producer

    result = LoadResult("send")
    with Producer(GROUP, **settings) as producer, stopping() as stop:
        load = SendLoad(producer, topic, b"x" * size, count, batch, rate, result, stop)
        load.run(threads, seconds)
    _print(result, output)


class SendLoad:
    """Senders that share one count, one pace and one result."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        body: bytes,
        count: int,
        batch: int,
        rate: float | None,
        result: LoadResult,
        stop: threading.Event,
    ) -> None:
        self._producer = producer
        self._messages = [Message(topic, body)] * batch
        self._left = count
        self._rate = rate
        self._result = result
        self._stop = stop
        self._lock = threading.Lock()
        self._claimed = 0
        self._start_s = 0.0

    def run(self, threads: int, seconds: float) -> None:
        self._start_s, cpu_s = time.monotonic(), time.process_time()
        deadline_s = self._start_s + seconds
        workers = [
            threading.Thread(target=self._send_until, args=(deadline_s,), name=f"perf-{number}")
            for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self._result.elapsed_s = time.monotonic() - self._start_s
        self._result.cpu_s = time.process_time() - cpu_s

    def _send_until(self, deadline_s: float) -> None:
        while (due_s := self._claim()) is not None:
            if self._stop.wait(max(0.0, min(due_s, deadline_s) - time.monotonic())):
                return
            before_s = time.monotonic()
            if before_s >= deadline_s:
                return
            try:
                if len(self._messages) == 1:
                    self._producer.send(self._messages[0])
                else:
                    self._producer.send_batch(self._messages)
            except FlintError as error:
                self._failed(error)
            else:
                self._sent(1000 * (time.monotonic() - before_s))

    def _claim(self) -> float | None:
        """When the next request is due; None when all are claimed."""
        with self._lock:
            failures_max = FAILURES_MAX if self._result.messages else 1
            if self._left <= 0 or self._result.failed >= failures_max:
                return None
            self._left -= len(self._messages)
            due_s = (
                self._start_s if self._rate is None else self._claimed / self._rate + self._start_s
            )
            self._claimed += len(self._messages)
            return due_s

    def _sent(self, spent_ms: float) -> None:
        with self._lock:
            self._result.messages += len(self._messages)
            self._result.body_bytes += sum(len(each.body) for each in self._messages)
            self._result.latencies_ms.append(spent_ms)

    def _failed(self, error: FlintError) -> None:
        with self._lock:
            self._result.failed += len(self._messages)
            self._result.error = str(error)


@app.command("consume")
@connected
def perf_consume(
    settings: ClientSettings,
    topic: TopicArgument,
    count: Count = 100_000,
    seconds: Seconds = 30.0,
    start: Annotated[
        bool, typer.Option("--from-start/--from-end", help="What is there, or what comes.")
    ] = True,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read a topic as fast as it goes, and show rate, latency and CPU. Commits nothing.

    With --from-start the time counts from the first pull to the last message. With --from-end it
    counts from the first message, and latency is from its birth to its arrival here: clocks of two
    machines differ.

    Examples:
        flintmq perf consume load-test --count 50000
        flintmq perf consume load-test --from-end --seconds 60 --json
    """
    from flintmq.client.pull.threaded_pull import LitePullConsumer

    result = LoadResult("consume")
    with stopping() as stop, LitePullConsumer(GROUP, **settings, auto_commit=False) as consumer:
        queues = consumer.queues(topic)
        first_s, cpu_s = time.monotonic(), time.process_time()
        deadline_s, last_s = first_s + seconds, first_s
        consumer.assign(queues)
        for queue in queues:
            if start:
                consumer.seek_to_start(queue)
            else:
                consumer.seek_to_end(queue)
        while result.messages < count and time.monotonic() < deadline_s and not stop.is_set():
            messages = consumer.poll(POLL_MS)
            now_s, now_ms = time.monotonic(), wall_ms()
            if not messages:
                if start and result.messages and now_s - last_s > QUIET_S:
                    break  # all that was there is read
                continue
            if not start and not result.messages:
                first_s, cpu_s = now_s, time.process_time()
            last_s = now_s
            messages = messages[: count - result.messages]
            result.messages += len(messages)
            result.body_bytes += sum(len(each.body) for each in messages)
            result.cpu_s = time.process_time() - cpu_s
            if not start:
                result.latencies_ms.extend(float(now_ms - each.born_ms) for each in messages)
    result.elapsed_s = last_s - first_s
    _print(result, output)


def _print(result: LoadResult, output: Output) -> None:
    facts = result.facts()
    if output is Output.JSON:
        print_json(facts)
    else:
        share = facts["cpu_share"]
        print_fields(
            (
                ("messages", f"{result.messages:,}"),
                ("failed", f"{result.failed:,}"),
                ("seconds", f"{result.elapsed_s:.2f}"),
                (
                    "rate",
                    rate_text(result.messages / result.elapsed_s if result.elapsed_s else None),
                ),
                ("bodies a second", size_text(float(str(facts["bytes_per_s"])))),
                ("latency p50", _ms(facts["latency_p50_ms"])),
                ("latency p99", _ms(facts["latency_p99_ms"])),
                ("latency max", _ms(facts["latency_max_ms"])),
                (
                    "CPU of this process",
                    None if share is None else f"{100 * float(str(share)):.0f} %",
                ),
                ("CPU a message", _us(facts["cpu_us_per_message"])),
            ),
        )
    if result.error is not None:
        exit_with(f"{result.failed} messages failed, the last: {result.error}", FAILED)
    if not result.messages:
        exit_with("no message was sent or came", FAILED)


def _ms(value: object) -> str | None:
    return None if value is None else f"{value} ms"


def _us(value: object) -> str | None:
    return None if value is None else f"{value} µs"
