"""The face of the kernel: each function as it is in `python`, or its compiled twin.

Callers use them as ``loops.read_plain(…)``, so that a test can put either in their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flintmq.kernel.choice import Kernel, kernel
from flintmq.kernel.python import (
    batches,
    frames,
    key_hashes,
    plain_records,
    pulls,
    send_forms,
    sends,
)
from flintmq.model.message import ReceivedMessage

if TYPE_CHECKING:
    from flintmq.kernel.python.plain_columns import ColumnWishes, LaidColumns, RawPage


def lay_out_columns(pages: list[RawPage], wishes: ColumnWishes) -> LaidColumns | None:
    """`plain_columns.lay_out_columns`, loaded when it is called: servers do without."""
    from flintmq.kernel.python import plain_columns

    return plain_columns.lay_out_columns(pages, wishes)


class Loops:
    """Every function of one implementation."""

    def __init__(self, chosen: Kernel) -> None:
        choose = chosen.choose
        self.read_plain = choose(
            plain_records.read_plain, plain_records.hosts, ReceivedMessage, tuple.__new__
        )
        self.cut_frames = choose(frames.cut_frames, frames.CutFrames)
        self.hash_keys = choose(key_hashes.hash_keys)
        self.find_records = choose(pulls.find_records)
        self.lay_out_columns = choose(lay_out_columns)
        self.lay_out_entries = choose(batches.lay_out_entries)
        self.lay_out_sends = choose(sends.lay_out_sends, send_forms.LaidOut)


loops: Final = Loops(kernel)
"""Those this process uses."""
