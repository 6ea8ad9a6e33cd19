# The compiled kernel; each function is explained by its twin in `flintmq.kernel.python`.

from collections.abc import Mapping

from flintmq.kernel.python.plain_records import Wishes
from flintmq.model.host import Host
from flintmq.model.message import ReceivedMessage

FACE: int

class PanicException(BaseException): ...

def panic_now(reason: str) -> None: ...
def read_plain(
    buffer: bytes,
    at: int,
    wishes: Wishes,
    hosts: Mapping[bytes, Host],
    message: type[ReceivedMessage],
    new: object,
    /,
) -> tuple[list[ReceivedMessage], int]: ...
