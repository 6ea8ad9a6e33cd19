"""The connection between a Python worker and Spark's JVM: no waiting for acknowledgements.

The JVM sends a task in two small pieces: first the function, then the partition.  Its socket holds
the second one back until the first is acknowledged (Nagle's algorithm), and Linux acknowledges what
it has nothing to answer to 40 ms later.  A task of a micro-batch takes less than that.  So a worker
acknowledges at once when it unpickles the function, and holds nothing back itself.

Spark does not hand its socket to a function, so all connections of the process to this machine get
the settings, which change no byte of what is sent.  Where a system has no such setting, or Spark
uses Unix sockets, nothing is done.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from typing import Any, Final

_FDS: Final = "/proc/self/fd"
_QUICK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
_LOOPBACK: Final = ("127.", "::1")


class FromJvm:
    """An object that Spark pickles for its workers."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        acknowledge_now()
        vars(self).update(state)


def acknowledge_now() -> None:
    """Acknowledge what came from this machine, and delay nothing that is sent to it."""
    if _QUICK is None:
        return
    try:
        with os.scandir(_FDS) as found:
            fds = [int(entry.name) for entry in found]
    except OSError:
        return
    for fd in fds:
        with suppress(OSError):  # the descriptor of the listing itself is closed
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                with socket.socket(fileno=os.dup(fd)) as one:
                    _set(one, _QUICK)


def _set(one: socket.socket, quick: int) -> None:
    if one.type != socket.SOCK_STREAM or one.family not in (socket.AF_INET, socket.AF_INET6):
        return
    if str(one.getpeername()[0]).startswith(_LOOPBACK):
        one.setsockopt(socket.IPPROTO_TCP, quick, 1)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
