"""What the program does when the listeners of a micro-batch have run, before it is committed.

    ordered queues   the locks must have been valid all the time, or the micro-batch runs again
    popped messages  who popped them is told which were not consumed
    an error         the program is told its text, which Spark does not pass on

Invariant: a micro-batch whose locks were lost is not committed.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from flintmq.errors import WrongState
from flintmq.net.clock import wall_ms
from flintmq.spark.outcomes.outcome_rows import SETTLE
from flintmq.spark.source import control_files as names
from flintmq.spark.source.control_files import ControlFiles
from flintmq.spark.tasks.popped_verdicts import VERDICTS

FAILED: Final = "failed"
"""The control file with the text of the error that ended a micro-batch."""


def check_lease(files: ControlFiles) -> None:
    """Raise `WrongState` when queue locks were lost while a micro-batch ran."""
    lease = files.read(names.LEASE)
    if lease is None:
        return
    reason = "others may consume it now; the batch is not committed, and runs again"
    if lease["broken"]:
        raise WrongState(f"the lock of {', '.join(lease['broken'])}", "lost", reason)
    until_ms = lease["until_ms"]
    if until_ms is not None and wall_ms() > until_ms:
        raise WrongState("the locks of this batch", "not renewed in time", reason)


def report_verdicts(files: ControlFiles, frame: DataFrame) -> None:
    """In a run that pops: say which messages of a micro-batch were not consumed."""
    rows = frame.where(f.col(SETTLE).isNotNull()).select(SETTLE).collect()
    files.write(VERDICTS, [row[0] for row in rows])


def report_failure(files: ControlFiles, text: str) -> None:
    """Say what went wrong with a micro-batch."""
    files.write(FAILED, text)
