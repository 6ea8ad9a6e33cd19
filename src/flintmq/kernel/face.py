"""The face of the kernel: each function as it is in `python`, or its compiled twin.

Callers use them as ``loops.read_plain(…)``, so that a test can put either in their place.
"""

from __future__ import annotations

from typing import Final

from flintmq.kernel.choice import Kernel, kernel
from flintmq.kernel.python import batches, frames, key_hashes, plain_records, sends
from flintmq.model.message import ReceivedMessage


class Loops:
    """Every function of one implementation."""

    def __init__(self, chosen: Kernel) -> None:
        choose = chosen.choose
        self.read_plain = choose(
            plain_records.read_plain, plain_records.hosts, ReceivedMessage, tuple.__new__
        )
        self.cut_frames = choose(frames.cut_frames, frames.CutFrames)
        self.hash_keys = choose(key_hashes.hash_keys)
        self.lay_out_batch = choose(batches.lay_out_batch, batches.LaidBatch)
        self.lay_out_sends = choose(sends.lay_out_sends, sends.LaidOut)


loops: Final = Loops(kernel)
"""Those this process uses."""
