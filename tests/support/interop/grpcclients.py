"""The official gRPC clients of RocketMQ 5, and proxies before brokers, one of them ours at least.

Each client plays all its scenarios at once in one process and tells what it saw as lines of JSON.
The packages come from where pip, npm, Go and Maven are told to fetch; versions and hashes are fixed
here and in the lock files beside the programs.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from flintmq.client.admin import Admin
from support.interop.javaproxy import JavaProxy
from support.interop.jvm import (
    FETCH_TIMEOUT_S,
    class_path,
    compile_java,
    jars,
    make_once,
    run_tool,
)
from support.interop.ours import READY, REAL_SETTINGS, STOP_TIMEOUT_S
from support.interop.real import RealRocketMQ
from support.interop.told import Event

SOURCES = Path(__file__).parents[2] / "interop" / "grpc"
PLAY_TIMEOUT_S = 240
READY_TIMEOUT_S = 120.0
"""On a machine that runs other things too."""

SETTINGS: dict[str, Any] = {
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    "transactionTimeOut": 3_000,
    "transactionCheckInterval": 3_000,
}


class Behind(StrEnum):
    """What serves the clients, and what is behind it."""

    OURS = "ours"
    REAL_5_3 = "real-5.3.3"
    JAVA_PROXY = "ours-behind-java-proxy-5.3.3"


class GrpcKind(StrEnum):
    """The clients."""

    PYTHON = "python-5.1.2"
    NODE = "node-1.0.8"
    JAVA_5_0 = "java-5.0.7"
    JAVA_5_2 = "java-5.2.0"
    GO = "go-5.1.3"

    @property
    def prefix(self) -> str:
        """Of the topics and groups it uses."""
        return self.replace(".", "_")

    @property
    def tools(self) -> tuple[str, ...]:
        """The commands it needs."""
        match self:
            case GrpcKind.PYTHON:
                return ()
            case GrpcKind.NODE:
                return ("node", "npm")
            case GrpcKind.GO:
                return ("go",)
            case _:
                return ("java", "mvn")


TYPES = {
    "normal": "NORMAL",
    "sql": "NORMAL",
    "simple": "NORMAL",
    "fifo": "FIFO",
    "delay": "DELAY",
    "recall": "DELAY",
    "tx": "TRANSACTION",
    "dead": "NORMAL",
}
"""What each scenario sends."""


def make_names(admin: Admin, prefix: str) -> None:
    """The topics and groups of all scenarios."""
    for scenario, type_ in TYPES.items():
        name = f"{prefix}-{scenario}"
        admin.create_topic(name, queues=2, attributes={"message.type": type_})
        retry_max = 1 if scenario == "dead" else 16
        admin.create_group(name, retry_max=retry_max, is_ordered=scenario == "fifo")


@dataclass(frozen=True, slots=True)
class Proxied:
    """A proxy, and the name server of the brokers behind it."""

    behind: Behind
    namesrv: str
    grpc: str


@contextmanager
def proxied(behind: Behind, directory: Path, *more: str) -> Iterator[Proxied]:
    """A proxy and what is behind it; ``more`` are options of `flintmq serve`."""
    if behind is not Behind.REAL_5_3:
        config = directory / "broker.conf"
        config.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
        options = ("--data", str(directory / "data"), "--config", str(config))
        listens = ("--namesrv-listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0")
        command = ["serve", *options, *listens, "--grpc", "127.0.0.1:0", *more]
        with running(command, directory) as facts:
            if behind is Behind.OURS:
                yield Proxied(behind, facts["namesrv"], facts["grpc"])
            else:
                with JavaProxy(directory, facts["namesrv"]) as proxy:
                    yield Proxied(behind, facts["namesrv"], proxy.grpc)
        return
    with RealRocketMQ("5.3.3", directory, **{**SETTINGS, **REAL_SETTINGS}) as real:
        command = ["proxy", "--listen", "127.0.0.1:0", "--namesrv", real.namesrv]
        with running(command, directory) as facts:
            yield Proxied(behind, real.namesrv, facts["grpc"])


@contextmanager
def running(words: Sequence[str], directory: Path) -> Iterator[dict[str, str]]:
    """A `flintmq` command that serves; what its ready line says."""
    errors = directory / "flintmq.err"
    with (
        errors.open("wb") as file,
        subprocess.Popen(
            [sys.executable, "-m", "flintmq", *words],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        ) as process,
    ):
        try:
            said = _ready_line(process)
            if not said.startswith(READY):
                raise RuntimeError(f"no ready line but {said!r}\n{errors.read_text()}")
            yield dict(word.split("=", 1) for word in said.removeprefix(READY).split())
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_TIMEOUT_S)
        finally:
            if process.poll() is None:
                process.kill()
    printed = errors.read_text()
    if process.returncode != 0 or "Traceback" in printed:
        raise RuntimeError(f"the server ended with {process.returncode}\n{printed}")


def _ready_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], READY_TIMEOUT_S)
    return process.stdout.readline().strip() if readable else ""


def play(kind: GrpcKind, endpoints: str, prefix: str, *account: str) -> list[Event]:
    """Run all scenarios at once and return what they told, failures among it."""
    match kind:
        case GrpcKind.PYTHON:
            environment = {**os.environ, "PYTHONPATH": str(_python())}
            program = str(SOURCES / "python" / "play.py")
            words = [sys.executable, program, endpoints, prefix, *account]
            where = None
        case GrpcKind.NODE:
            environment, where = dict(os.environ), str(_node())
            words = ["node", "play.js", endpoints, prefix, *account]
        case GrpcKind.GO:
            made = _go()
            environment, where = {**os.environ, "rocketmq.client.logRoot": str(made)}, None
            words = [str(made / "play"), endpoints, prefix, *account]
        case _:
            environment, where = dict(os.environ), None
            words = [*_java(kind), endpoints, prefix, "tls", *account]
    done = subprocess.run(
        words,
        check=False,
        cwd=where,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PLAY_TIMEOUT_S,
    )
    told: list[Event] = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
    for event in told:
        if event["event"] == "end" and event["failure"] is None:
            del event["failure"]
    if not told:
        told.append({"scenario": "", "event": "end", "failure": done.stderr[-4_000:]})
    return told


def _python() -> Path:
    """The directory to import ``rocketmq`` from."""
    wanted = SOURCES / "python" / "requirements.txt"

    def install_into(made: Path) -> None:
        options = ["--require-hashes", "--only-binary=:all:", "--target", str(made)]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", *options]
        run_tool([*pip, "--requirement", str(wanted)], FETCH_TIMEOUT_S)

    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()[:24]
    return make_once(f"grpc-python/{digest}", install_into)


def _node() -> Path:
    files = ("package.json", "package-lock.json", "play.js")
    digest = hashlib.sha256()
    for name in files:
        digest.update((SOURCES / "node" / name).read_bytes())

    def install_into(made: Path) -> None:
        for name in files:
            shutil.copy(SOURCES / "node" / name, made)
        run_tool(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], FETCH_TIMEOUT_S, str(made)
        )

    return make_once(f"grpc-node/{digest.hexdigest()[:24]}", install_into)


def _go() -> Path:
    """The directory of the built program; its log is written there."""
    sources = SOURCES / "go"
    digest = hashlib.sha256()
    for source in sorted(sources.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())

    def compile_into(made: Path) -> None:
        command = ["go", "build", "-mod=readonly", "-o", str(made / "play"), "."]
        run_tool(command, FETCH_TIMEOUT_S, str(sources))

    return make_once(f"grpc-go/{digest.hexdigest()[:24]}", compile_into)


def _java(kind: GrpcKind) -> list[str]:
    lib = jars(["client-java"], kind.removeprefix("java-"))
    classes = compile_java([SOURCES / "java" / "GrpcPlay.java"], lib)
    flags = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *flags, "-cp", class_path([lib, classes]), "GrpcPlay"]
