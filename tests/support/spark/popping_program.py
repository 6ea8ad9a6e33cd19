"""A driver that pops, without its Spark: it is killed between a micro-batch and its settling.

    python popping_program.py NAMESRV GROUP TOPIC DIARY

The first micro-batch is settled.  The listeners of the second run, and then the process kills
itself, as a driver ends that runs out of memory.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from flintmq import App
from flintmq.spark.listeners.pop_driver import PopDriver
from flintmq.spark.source.control_files import ControlFiles
from flintmq.spark.tasks.packed_app import read_program
from flintmq.spark.tasks.pop_task import listen_popped
from flintmq.spark.tasks.popped_verdicts import VERDICTS

BATCH = 64


def app_of(namesrv: str, group: str, topic: str, diary: str, **settings: Any) -> App:
    app = App(group, namesrv=namesrv, start_from="first", mode="pop", **settings)

    @app.listener(topic, batch_max=8)
    def note(messages: Any) -> None:
        with Path(diary).open("a") as file:
            file.write("".join(f"{message.body.decode()}\n" for message in messages))

    return app


class Micro:
    """Plans and runs micro-batches, as Spark has it done."""

    def __init__(self, app: App, files: ControlFiles) -> None:
        self._program = read_program(app)
        self._files = files
        self.driver = PopDriver(self._program, self._files, 2)
        self._number = 0

    def run_batch(self) -> bool:
        """One micro-batch, up to its end; False where nothing came."""
        if not self.driver.plan(self._number, BATCH):
            return False
        self._number += 1
        rows: list[dict[str, Any]] = []
        for task in self.driver.tasks(self._number):
            rows += [
                row for batch in listen_popped(self._program, task) for row in batch.to_pylist()
            ]
        self._files.write(VERDICTS, [row["settle"] for row in rows if row["settle"] is not None])
        return True

    def settle(self) -> None:
        """Spark has committed the last micro-batch."""
        self.driver.finish(self._number)


def main() -> None:
    namesrv, group, topic, diary = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        micro = Micro(app_of(namesrv, group, topic, diary), ControlFiles(directory))
        assert micro.run_batch()
        micro.settle()
        with Path(diary).open("a") as file:
            file.write("settled\n")
        assert micro.run_batch()
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
