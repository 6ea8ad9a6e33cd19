"""Members of one group in processes of their own: started, asked and stopped by one parent.

    parent ──spawn──► N children, each a member          stop, or the end of the pipe ──► they stop
       ▲                                                   one that ends by itself ──► all stop
       └── listeners that still ran, or why it ended

For listeners that compute: threads of one Python share one core.  A child that ends by itself, with
an error or killed, stops the others, and the parent raises why: what is the same in all of them
fails in all of them, and a service manager starts the program again.

Refused: functions and settings that cannot be pickled.  Children are spawned, not forked, so they
import the program: it starts them below ``if __name__ == "__main__":``.

Invariant: when `run` returns or raises, no child is left.
"""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final, TypeAlias

from flintmq.client.push.push_status import ConsumerStatus, ListenerStatus
from flintmq.errors import FlintError, InvalidSetting, Unreachable
from flintmq.logs import logger

log = logger(__name__)

PROCESSES_MAX: Final = 1_024
"""More than any machine has cores: a number that is probably a mistake."""

LOOK_S: Final = 0.1
"""How often the parent looks whether it was told to stop; children that end wake it at once."""

SPARE_S: Final = 15.0
"""What a child may take to stop beyond the time of its listeners: commits, leaving, its end."""

STATUS_S: Final = 5.0
"""How long a child may take to tell its status; one that takes longer is left out."""

Member: TypeAlias = Callable[[Connection, Connection, Mapping[str, Any]], None]
"""What a child runs: it hears and answers over one pipe, tells its status over the other."""


class MemberProcesses:
    """The children of one run."""

    def __init__(self, member: Member, arguments: Mapping[str, Any], count: int) -> None:
        if not 1 <= count <= PROCESSES_MAX:
            raise InvalidSetting("processes", str(count), f"it must be 1 to {PROCESSES_MAX}")
        try:
            pickle.dumps(arguments)
        except Exception as error:  # whatever a user's object raises
            reason = f"listeners and settings must be importable by other processes: {error}"
            raise InvalidSetting("processes", str(count), reason) from None
        spawn = multiprocessing.get_context("spawn")
        self._asking = threading.Lock()
        self._pipes = [(spawn.Pipe(), spawn.Pipe()) for _ in range(count)]
        self.children: list[SpawnProcess] = [
            spawn.Process(target=member, args=(words[1], figures[1], arguments))
            for words, figures in self._pipes
        ]

    def run(self, told_to_stop: threading.Event, stop_timeout_s: float) -> list[ListenerStatus]:
        """Start all and wait for their end.  Gives the listeners that still ran, of all of them.

        Raises what a child raised, or `Unreachable` for one that ended without a word.
        """
        try:
            for child, (words, figures) in zip(self.children, self._pipes, strict=True):
                child.start()
                words[1].close()  # the child has it: its end is seen here
                figures[1].close()
            while not told_to_stop.is_set():
                if wait([child.sentinel for child in self.children], timeout=LOOK_S):
                    break
        finally:
            self._stop(stop_timeout_s)
        return self._outcome(is_asked=told_to_stop.is_set())

    def status(self) -> list[ConsumerStatus]:
        """What each child says of its consumer; those that do not answer are left out."""
        found = []
        with self._asking:
            for _, (figures, _) in self._pipes:
                try:
                    figures.send("status")
                    if figures.poll(STATUS_S):
                        found.append(figures.recv())
                except (OSError, EOFError):
                    continue  # it has not started, or is gone
        return [each for each in found if each is not None]

    def _stop(self, stop_timeout_s: float) -> None:
        started = [child for child in self.children if child.pid is not None]
        for words, _ in self._pipes[: len(started)]:
            try:
                words[0].send("stop")
            except OSError:
                continue  # it has ended
        for child in started:
            child.join(stop_timeout_s + SPARE_S)
            if child.is_alive():
                log.error("process %s did not stop: it is killed", child.pid)
                child.kill()
                child.join()

    def _outcome(self, *, is_asked: bool) -> list[ListenerStatus]:
        left: list[ListenerStatus] = []
        silent: list[SpawnProcess] = []
        for child, (words, _) in zip(self.children, self._pipes, strict=True):
            told = _last_word(words[0])
            if isinstance(told, FlintError):
                raise told
            if told is None:
                silent.append(child)
            else:
                left += told
        for child in silent:
            reason = f"it ended with code {child.exitcode}; the other processes were stopped"
            raise Unreachable(f"process {child.pid}", reason)
        if not is_asked:
            raise Unreachable("a process", "it ended by itself; the others were stopped")
        return left


def _last_word(words: Connection) -> list[ListenerStatus] | FlintError | None:
    """What a child said at its end; None for one that did not come to it."""
    try:
        told: list[ListenerStatus] | FlintError | None = words.recv() if words.poll() else None
    except (OSError, EOFError):
        return None
    return told


def follow(words: Connection, stop: Callable[[], None]) -> None:
    """In a child: stop when the parent says so, or is gone."""

    def listen() -> None:
        with suppress(OSError, EOFError):
            words.recv()
        stop()

    threading.Thread(target=listen, name="flintmq-parent", daemon=True).start()


def tell_status(figures: Connection, status: Callable[[], ConsumerStatus | None]) -> None:
    """In a child: answer whenever the parent asks how it is."""

    def answer() -> None:
        try:
            while figures.recv():
                figures.send(status())
        except (OSError, EOFError):
            return

    threading.Thread(target=answer, name="flintmq-status", daemon=True).start()
