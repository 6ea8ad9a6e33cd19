"""A client that behaves: it sends and pulls all the time while others attack.

As a program (`python beside.py NAMESRV`) it reads one word a line and answers with one line of
JSON: ``mark`` tells what happened since the mark before, ``end`` pulls what is left and tells what
was acknowledged and never came.  It is a process of its own so that the work of the attackers is
not taken for slowness of the victim; and it measures how late it wakes up itself, which is the
noise of the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

TOPIC = "beside"
PAUSE_S = 0.004
CALL_MS = 15_000
END_S = 30.0


@dataclass(frozen=True, slots=True)
class Felt:
    """What the client felt between two marks; a round is one send and one pull."""

    rounds: int
    failed: int
    p50_ms: float
    p99_ms: float
    late_ms: float
    reasons: tuple[str, ...] = ()


class Beside:
    """The client as the tests hold it."""

    def __init__(self, namesrv: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__), namesrv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment or None,
        )
        try:
            assert self._read() == {"ready": True}
        except BaseException:
            self.close()
            raise

    def mark(self) -> Felt:
        told = self._ask("mark")
        return Felt(**{**told, "reasons": tuple(told["reasons"])})

    def rounds(self) -> int:
        """Since the last mark."""
        return int(self._ask("rounds")["rounds"])

    def end(self) -> dict[str, Any]:
        told = self._ask("end")
        self._process.wait(END_S)
        return told

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def _ask(self, word: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the client beside ended"
        told: dict[str, Any] = json.loads(line)
        return told


class _Rounds:
    """The program: rounds on one thread, the noise of the machine on another."""

    def __init__(self, namesrv: str) -> None:
        from flintmq import Admin, Producer, PullConsumer

        with Admin(namesrv=namesrv, call_timeout_ms=CALL_MS) as admin:
            admin.create_topic(TOPIC, queues=1)
        settings: Any = {"namesrv": namesrv, "call_timeout_ms": CALL_MS}
        self._producer = Producer("beside", **settings).start()
        self._consumer = PullConsumer("beside", **settings).start()
        (self._queue,) = self._producer.queues(TOPIC)
        self._offset = 0
        self._acknowledged: set[bytes] = set()
        self._came: set[bytes] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._clear()
        self._threads = [threading.Thread(target=run) for run in (self._run, self._watch)]
        for thread in self._threads:
            thread.start()

    def mark(self) -> dict[str, object]:
        with self._lock:
            rounds, late, failures = sorted(self._ms), sorted(self._late), self._failures
            self._clear()
        return {
            "rounds": len(rounds),
            "failed": len(failures),
            "p50_ms": _part(rounds, 0.50),
            "p99_ms": _part(rounds, 0.99),
            "late_ms": _part(late, 0.99),
            "reasons": failures[:5],
        }

    def rounds(self) -> dict[str, object]:
        return {"rounds": len(self._ms)}

    def end(self) -> dict[str, object]:
        self._over.set()
        for thread in self._threads:
            thread.join()
        deadline = time.monotonic() + END_S
        while self._acknowledged - self._came and time.monotonic() < deadline:
            self._pull()
        self._producer.stop()
        self._consumer.stop()
        lost = self._acknowledged - self._came
        return {"acknowledged": len(self._acknowledged), "lost": len(lost)}

    def _run(self) -> None:
        from flintmq import Message
        from flintmq.errors import FlintError

        for number in count():
            if self._over.wait(PAUSE_S):
                return
            body = b"%d" % number
            start = time.perf_counter()
            reason = ""
            try:
                self._producer.send(Message(TOPIC, body), queue=self._queue)
                self._acknowledged.add(body)
                self._pull()
            except FlintError as error:
                reason = repr(error)
            with self._lock:
                self._ms.append((time.perf_counter() - start) * 1000)
                if reason:
                    self._failures.append(reason)

    def _pull(self) -> None:
        result = self._consumer.pull(self._queue, self._offset)
        self._came.update(bytes(message.body) for message in result.messages)
        self._offset = result.next_offset

    def _watch(self) -> None:
        while not self._over.is_set():
            start = time.perf_counter()
            self._over.wait(PAUSE_S)
            late_ms = (time.perf_counter() - start - PAUSE_S) * 1000
            with self._lock:
                self._late.append(late_ms)

    def _clear(self) -> None:
        self._ms: list[float] = []
        self._late: list[float] = []
        self._failures: list[str] = []


def _part(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def main() -> None:
    rounds = _Rounds(sys.argv[1])
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(getattr(rounds, line.strip())()), flush=True)
        if line == "end\n":
            return
    rounds.end()


if __name__ == "__main__":
    main()
