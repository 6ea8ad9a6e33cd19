# The compiled kernel; each function is explained by its twin in `flintmq.kernel.python`.

from collections.abc import Callable, Mapping
from typing import Any

from flintmq.kernel.python.frames import CutFrames
from flintmq.kernel.python.plain_columns import ColumnWishes, LaidColumns, RawPage
from flintmq.kernel.python.plain_records import Wishes
from flintmq.kernel.python.send_forms import Keyed, LaidOut, RawFrame, SendForm, SendRoom
from flintmq.model.host import Host
from flintmq.model.message import ReceivedMessage

FACE: int

class PanicException(BaseException): ...

def panic_now(reason: str) -> None: ...
def cut_frames(
    data: bytes, bytes_max: int, header_bytes_max: int, cut: type[CutFrames], /
) -> CutFrames: ...
def hash_keys(records: list[Keyed], keys: list[str], /) -> tuple[bytes, bytes, bytes]: ...
def lay_out_columns(pages: list[RawPage], wishes: ColumnWishes, /) -> LaidColumns | None: ...
def lay_out_sends(
    frames: list[RawFrame],
    start: int,
    forms: dict[bytes, tuple[SendForm, ...]],
    growth_of: Callable[[tuple[str, int]], Any],
    room: SendRoom,
    laid_out: type[LaidOut],
    /,
) -> LaidOut: ...
def read_plain(
    buffer: bytes,
    at: int,
    wishes: Wishes,
    hosts: Mapping[bytes, Host],
    message: type[ReceivedMessage],
    new: object,
    /,
) -> tuple[list[ReceivedMessage], int]: ...
