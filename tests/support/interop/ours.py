"""The broker under test: ours in a process of its own, or a real RocketMQ in its place.

    with serving(tmp_path, flush="sync") as served:
        JavaClient("5.3.3", served.namesrv, tmp_path)

Whatever is claimed of ours must hold for the real ones too, or the claim itself is wrong:
``FLINTMQ_INTEROP_BROKER=real-4.9`` or ``real-5.3`` puts one of them in our place.

A server of ours that does not stop in order, or printed a traceback, is an error.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from support.interop.real import RealRocketMQ

READY_TIMEOUT_S = 120.0  # a second on an idle machine; tests share two cores
STOP_TIMEOUT_S = 30.0
OUTPUT_TAIL_BYTES = 20_000
READY = "flintmq ready "

# Short times, so that retries, delays and checks take a second or two instead of minutes.
DELAY_LEVELS = ("1s", "2s", *["1s"] * 16)
SETTINGS: dict[str, Any] = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "enablePropertyFilter": "true",
    "messageDelayLevel": " ".join(DELAY_LEVELS),
    "transactionCheckInterval": 1_000,
    "transactionTimeOut": 1_000,
}
REAL_SETTINGS: dict[str, Any] = {
    "transactionOpBatchInterval": 100,  # else 5.x checks what was committed a moment ago
}
REAL_JVM_FLAGS = ("-Xms128m", "-Xmx384m", "-XX:MaxDirectMemorySize=512m")


class Kind(StrEnum):
    OURS = "ours"
    REAL_4_9 = "real-4.9"
    REAL_5_3 = "real-5.3"


REAL_VERSIONS = {Kind.REAL_4_9: "4.9.7", Kind.REAL_5_3: "5.3.3"}


@dataclass(frozen=True, slots=True)
class Served:
    """A broker and its name server, up and listed."""

    kind: Kind
    namesrv: str
    broker: str
    errors: Path | None = None  # the log of ours; a real one shows its own

    def output(self) -> str:
        if self.errors is None:
            return ""
        return self.errors.read_bytes()[-OUTPUT_TAIL_BYTES:].decode(errors="replace")


running: list[Served] = []
"""What is up now; the test report shows its output when a test fails."""


def chosen_kind() -> Kind:
    return Kind(os.environ.get("FLINTMQ_INTEROP_BROKER", Kind.OURS))


@contextmanager
def serving(
    directory: Path,
    *,
    kind: Kind | None = None,
    flush: str = "sync",
    port: int = 0,
    **settings: Any,
) -> Iterator[Served]:
    """A broker with the settings above and these, under RocketMQ's names.

    Ours listens on the port; a real one chooses its own.
    """
    kind = kind or chosen_kind()
    wanted = {**SETTINGS, **settings}
    if kind is Kind.OURS:
        with _serving_ours(directory, flush, port, wanted) as served:
            running.append(served)
            try:
                yield served
            finally:
                running.remove(served)
        return
    real = RealRocketMQ(
        REAL_VERSIONS[kind],
        directory,
        jvm_flags=REAL_JVM_FLAGS,
        **{**wanted, **REAL_SETTINGS, "flushDiskType": f"{flush.upper()}_FLUSH"},
    )
    with real:
        yield Served(kind, real.namesrv, real.broker)


@contextmanager
def _serving_ours(
    directory: Path, flush: str, port: int, settings: dict[str, Any]
) -> Iterator[Served]:
    config = directory / "broker.conf"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = [
        *(sys.executable, "-m", "flintmq", "serve", "--data", str(directory / "data")),
        *("--namesrv-listen", "127.0.0.1:0", "--broker-listen", f"127.0.0.1:{port}"),
        *("--flush", flush, "--config", str(config)),
    ]
    errors = directory / "serve.err"
    with (
        errors.open("wb") as file,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True) as process,
    ):
        try:
            said = ready_line(process)
            if not said.startswith(READY):
                raise RuntimeError(f"no ready line but {said!r}\n{errors.read_text()}")
            facts = dict(word.split("=", 1) for word in said.removeprefix(READY).split(maxsplit=2))
            yield Served(Kind.OURS, facts["namesrv"], facts["broker"], errors)
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_TIMEOUT_S)
        finally:
            if process.poll() is None:
                process.kill()
    printed = errors.read_text()
    if process.returncode != 0 or "Traceback" in printed:
        raise RuntimeError(f"the server ended with {process.returncode}\n{printed}")


def ready_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], READY_TIMEOUT_S)
    return process.stdout.readline().strip() if readable else ""
