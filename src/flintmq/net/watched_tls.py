"""The certificate of a server or a client, read again when its files change.

    certificate, key, authorities ─► changed? ─┬─ usable ─► for every handshake from now on
                                               └─ not ────► a line in the log; the old stays

A server looks every few seconds, a client before it connects.  Files are compared by time, size
and place on the disk.  Certificate and key may be replaced one after the other: between the two
they do not belong together, so the old pair stays until the new one is whole.  Connections that
stand go on as they are.

Invariant: there is always a context that can be used.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TypeAlias

from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.net.tls import ClientTls, ServerTls

log = logger(__name__)

_Seen: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class WatchedTls:
    """A TLS context of files.  Raises `InvalidSetting` where the first one cannot be made."""

    def __init__(self, tls: ServerTls | ClientTls) -> None:
        self._tls = tls
        self._paths = tuple(map(Path, tls.files))
        self._seen = self._identities()
        self.context: ssl.SSLContext = tls.context()

    def take_changes(self) -> ssl.SSLContext:
        """The context of the files as they are now; a fault is logged, and the old one stays."""
        seen = self._identities()
        if seen != self._seen:
            self._seen = seen
            try:
                self.context = self._tls.context()
            except InvalidSetting as error:
                log.warning(
                    "changed TLS files cannot be used, the last certificate stays: %s", error
                )
            else:
                log.info("the TLS files %s are read again", ", ".join(map(str, self._paths)))
        return self.context

    def _identities(self) -> _Seen:
        return tuple(map(_identity, self._paths))


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
