"""A real Apache RocketMQ name server and broker, as a context manager on free loopback ports.

    with RealRocketMQ("5.3.3", tmp_path, enablePropertyFilter=True) as rocketmq:
        Producer("shop", namesrv=rocketmq.namesrv)

Keyword settings go to the broker's configuration file under RocketMQ's own names.  The block is
entered once the broker is in the name server's list: "boot success" comes too early.  Leaving it
stops the broker in order, so the store has a clean shutdown; `kill_broker` is the other way.

Nothing of ``flintmq`` is used: the harness must not share a bug with what it judges.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from support.interop.ask import ask
from support.interop.jvm import compile_java, jars, missing_tools, run_java, start_java

__all__ = [
    "Process",
    "RealRocketMQ",
    "ServerTls",
    "ask",
    "compile_java",
    "free_port",
    "jars",
    "missing_tools",
    "run_java",
    "running",
]

LOOPBACK = "127.0.0.1"
READY_TIMEOUT_S = 90.0  # 10 s on an idle machine; tests share two cores
STOP_TIMEOUT_S = 300.0  # a broker takes 10 s when idle, minutes when it shares two cores
POLL_INTERVAL_S = 0.05
OUTPUT_TAIL_BYTES = 8_000

GET_BROKER_CLUSTER_INFO = 106

# Below the range the kernel takes for outgoing connections, so none of those can be in the way.
PORTS = range(20_000, 32_000, 10)
PORT_LOCKS = Path(tempfile.gettempdir()) / "flintmq-test-ports"

# Small files, so that a test's directory stays small; the rest is what tests want most often.
BROKER_SETTINGS: dict[str, object] = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerId": 0,
    "brokerIP1": LOOPBACK,
    "brokerIP2": LOOPBACK,
    "bindAddress": LOOPBACK,
    "diskMaxUsedSpaceRatio": 95,
    "enablePropertyFilter": True,
    "mappedFileSizeCommitLog": 64 * 1024 * 1024,
    "mappedFileSizeConsumeQueue": 600_000,
    "maxHashSlotNum": 100_000,
    "maxIndexNum": 500_000,
}

# 4.9 does not start without one; later releases carry their own and ignore it.
LOGBACK = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %t - %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""

running: list[RealRocketMQ] = []
"""Every pair that is up now; the test report shows their output when a test fails."""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """PEM files of a pair that speaks TLS.  The key must be PKCS #8.

    ``mode`` is the broker's.  The name server always serves plain connections too, because the
    broker makes such a one.
    """

    certificate: Path
    key: Path
    trusted: Path | None = None  # certificates of clients; None asks clients for none
    mode: str = "enforcing"  # or "permissive": plain connections are served too

    def properties(self, mode: str) -> dict[str, str]:
        settings = {
            "tls.test.mode.enable": "false",
            "tls.server.mode": mode,
            "tls.server.certPath": str(self.certificate),
            "tls.server.keyPath": str(self.key),
        }
        if self.trusted is not None:
            settings["tls.server.need.client.auth"] = "require"
            settings["tls.server.authClient"] = "true"
            settings["tls.server.trustCertPath"] = str(self.trusted)
        return settings


@dataclass(slots=True)
class Process:
    """One JVM of the pair, its output kept in a file."""

    main: str
    props: Mapping[str, str]
    jvm_flags: Sequence[str]
    config: Path
    output: Path
    running: subprocess.Popen[str] | None = field(default=None, repr=False)

    def start(self, settings: Mapping[str, object], lib: Path) -> None:
        assert self.running is None, "already started"
        self.config.write_text("".join(f"{k}={_text(v)}\n" for k, v in settings.items()))
        self.running = start_java(
            self.main,
            ["-c", str(self.config)],
            lib,
            self.props,
            jvm_flags=self.jvm_flags,
            output=self.output,
        )

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> None:
        """End it and wait.  One that does not end in time is killed, and that is an error."""
        if self.running is None:
            return
        process, self.running = self.running, None
        with process:
            process.send_signal(with_signal)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise RuntimeError(f"{self.main} did not stop\n{self.tail()}") from None

    def tail(self) -> str:
        if not self.output.exists():
            return ""
        return self.output.read_bytes()[-OUTPUT_TAIL_BYTES:].decode(errors="replace")


class RealRocketMQ:
    """The pair.  Ports and directories are known before it is started.

    ``serialize_type="ROCKETMQ"`` makes both servers write binary headers.  ``props`` and
    ``jvm_flags`` reach both JVMs; ``namesrv_settings`` is the name server's configuration.
    """

    def __init__(
        self,
        version: str,
        directory: Path,
        *,
        tls: ServerTls | None = None,
        serialize_type: str = "JSON",
        namesrv_settings: Mapping[str, object] | None = None,
        props: Mapping[str, str] | None = None,
        jvm_flags: Sequence[str] = ("-Xms256m", "-Xmx768m", "-XX:MaxDirectMemorySize=1g"),
        **settings: object,
    ) -> None:
        self.version = version
        self.directory = directory.absolute()
        self.home = self.directory / "home"
        self.namesrv_port = free_port()
        self.broker_port = free_port()
        self.namesrv = f"{LOOPBACK}:{self.namesrv_port}"
        self.broker = f"{LOOPBACK}:{self.broker_port}"
        self.settings = {
            **BROKER_SETTINGS,
            "listenPort": self.broker_port,
            "haListenPort": self.broker_port + 1,
            "namesrvAddr": self.namesrv,
            "storePathRootDir": self.directory / "store",
            **settings,
        }
        self.settings.setdefault("storePathCommitLog", self.store / "commitlog")
        self.namesrv_settings = {
            "listenPort": self.namesrv_port,
            "bindAddress": LOOPBACK,
            "kvConfigPath": self.home / "kvConfig.json",
            "configStorePath": self.home / "namesrv.properties",
            **(namesrv_settings or {}),
        }
        self.props = {
            "user.home": str(self.home),
            "rocketmq.home.dir": str(self.home),
            "rocketmq.serialize.type": serialize_type,
            **(props or {}),
        }
        self.jvm_flags = jvm_flags
        open_tls = tls.properties("permissive") if tls else {}
        own_tls = tls.properties(tls.mode) if tls else {}
        self._namesrv = self._process("namesrv.NamesrvStartup", open_tls)
        self._broker = self._process("broker.BrokerStartup", own_tls)

    @property
    def store(self) -> Path:
        return Path(str(self.settings["storePathRootDir"]))

    @property
    def broker_pid(self) -> int:
        assert self._broker.running is not None
        return self._broker.running.pid

    def __enter__(self) -> Self:
        running.append(self)
        try:
            self.start_namesrv()
            self.start_broker()
        except BaseException:
            self._end(signal.SIGKILL)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            print(self.output())
        self._end(signal.SIGTERM)

    def start_namesrv(self) -> None:
        self._start(self._namesrv, self.namesrv_settings)
        self._wait("the name server to answer", self._listed)

    def start_broker(self) -> None:
        """Start the broker, on the same ports and store as before, and wait for it to be listed."""
        self._start(self._broker, self.settings)
        name = str(self.settings["brokerName"])
        self._wait("the broker to register", lambda: name in (self._listed() or ""))

    def stop_broker(self) -> None:
        """Stop the broker in order: everything is flushed and no abort file stays."""
        self._broker.stop()

    def kill_broker(self) -> None:
        """End the broker as a crash would."""
        self._broker.stop(signal.SIGKILL)

    def output(self) -> str:
        """The end of what both servers printed."""
        return "\n".join(
            f"---- {process.output.name} of RocketMQ {self.version}\n{process.tail()}"
            for process in (self._namesrv, self._broker)
        )

    def _process(self, main: str, tls: Mapping[str, str]) -> Process:
        name = main.partition(".")[0]
        return Process(
            f"org.apache.rocketmq.{main}",
            {**self.props, **tls},
            self.jvm_flags,
            config=self.directory / f"{name}.conf",
            output=self.directory / f"{name}.out",
        )

    def _start(self, process: Process, settings: Mapping[str, object]) -> None:
        conf = self.home / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        for name in ("logback_namesrv.xml", "logback_broker.xml"):
            (conf / name).write_text(LOGBACK)
        process.start(settings, jars(["namesrv", "broker"], self.version))

    def _wait(self, what: str, ready: Callable[[], object]) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not ready():
            for process in (self._namesrv, self._broker):
                if process.running is not None and process.running.poll() is not None:
                    raise RuntimeError(f"{process.main} ended while starting\n{self.output()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited too long for {what}\n{self.output()}")
            time.sleep(POLL_INTERVAL_S)

    def _listed(self) -> str | None:
        """What the name server says of its brokers, or None while it does not answer."""
        try:
            return ask(self.namesrv, GET_BROKER_CLUSTER_INFO)[1].decode()
        except OSError:
            return None

    def _end(self, with_signal: signal.Signals) -> None:
        running.remove(self)
        try:
            self._broker.stop(with_signal)
        finally:
            self._namesrv.stop(signal.SIGKILL)  # it holds nothing that must be kept


def free_port() -> int:
    """A port that is free together with its neighbours: a broker also takes -2 and +1.

    No other run of these tests gets it, as long as this process lives.
    """
    for port in random.sample(PORTS, len(PORTS)):
        if port in _reserved or not all(map(_is_free, (port - 2, port, port + 1))):
            continue
        if (reservation := _reserve(port)) is not None:
            _reserved[port] = reservation
            return port
    raise RuntimeError("no free port")


_reserved: dict[int, int] = {}
"""Descriptors of the locked files of the ports that were handed out."""


def _reserve(port: int) -> int | None:
    """A file that is locked until this process ends; None where another run has locked it."""
    PORT_LOCKS.mkdir(exist_ok=True)
    lock = os.open(PORT_LOCKS / str(port), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
