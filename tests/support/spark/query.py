"""A query without Spark: the source's driver and its tasks, one batch after the other."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from flintmq.core.group.app import App
from flintmq.model.queue import QueueRef
from flintmq.spark.listeners.listener_source import ListenerStream, ListenPart
from flintmq.spark.source.stream_offset import StreamOffset
from flintmq.spark.tasks.listener_task import listen_all
from flintmq.spark.tasks.packed_app import pack, read_program


class Query:
    """Runs an app on a thread as Spark would: plan, read, and only then know that it is done."""

    def __init__(self, app: App, start: dict[str, Any] | None = None) -> None:
        self._program = read_program(app)
        deaf = [replace(each, function=_deaf) for each in self._program.listeners]
        self.stream = ListenerStream(pack(replace(self._program, listeners=tuple(deaf))), {})
        self.offset = start or self.stream.initialOffset()
        self.batches: list[StreamOffset] = []
        self.error: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()
        self.stream.commit(self.offset)
        self.stream.stop()
        if error is None and self.error is not None:
            raise self.error

    def queues(self, topic: str) -> set[QueueRef]:
        """What is ours now, as far as the last look at it tells."""
        told = self.stream.reportLatestOffset()
        if told is None:
            return set()
        return {
            span.queue for span in StreamOffset.from_json(told).spans if span.queue.topic == topic
        }

    def step(self) -> bool:
        """One batch; whether there was anything to do."""
        end = self.stream.latestOffset(self.offset, self.stream.getDefaultReadLimit())
        if end == self.offset:
            return False
        self.run_batch(end)
        return True

    def run_batch(self, end: dict[str, Any]) -> None:
        for part in self.stream.partitions(self.offset, end):
            assert isinstance(part, ListenPart)
            for _ in listen_all(self._program, part.parts):
                pass
        self.batches.append(StreamOffset.from_json(end))
        self.offset = end

    def _live(self) -> None:
        try:
            while not self._stopping.is_set():
                self.step()
        except BaseException as error:
            self.error = error


def _deaf(_messages: object) -> None:
    """What the driver has in place of listeners, which here share memory with their test."""
