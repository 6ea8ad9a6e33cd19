"""RocketMQ's own gRPC proxy in cluster mode, as a context manager on free loopback ports.

    with JavaProxy(tmp_path, namesrv) as proxy:
        play(GrpcKind.JAVA_5_2, proxy.grpc, "prefix")

It takes its brokers from a name server, ours or a real one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from support.interop.jvm import jars, start_java
from support.interop.real import LOOPBACK, free_port

VERSION = "5.3.3"
STARTED = "startup successfully"
READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.1
FLAGS = ("-Xms128m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m")


class JavaProxy:
    """The proxy.  Its ports are known before it is started."""

    def __init__(self, directory: Path, namesrv: str, **settings: object) -> None:
        self.directory = directory
        self.grpc = f"{LOOPBACK}:{free_port()}"
        self.output = directory / "proxy.out"
        self._settings = {
            "rocketMQClusterName": "DefaultCluster",
            "proxyMode": "CLUSTER",
            "namesrvAddr": namesrv,
            "localServeAddr": LOOPBACK,
            "grpcServerPort": int(self.grpc.rpartition(":")[2]),
            "remotingListenPort": free_port(),
            **settings,
        }
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        config = self.directory / "proxy.json"
        config.write_text(json.dumps(self._settings))
        home = str(self.directory)
        self.process = start_java(
            "org.apache.rocketmq.proxy.ProxyStartup",
            ["-pc", str(config)],
            jars(["proxy"], VERSION),
            {"user.home": home, "rocketmq.home.dir": home, "RMQ_PROXY_HOME": home},
            jvm_flags=FLAGS,
            output=self.output,
        )
        deadline = time.monotonic() + READY_TIMEOUT_S
        while STARTED not in self.output.read_text(errors="replace"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                said = self.output.read_text(errors="replace")[-8_000:]
                raise RuntimeError(f"the proxy did not start\n{said}")
            time.sleep(POLL_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(signal.SIGTERM)

    def _end(self, with_signal: signal.Signals) -> None:
        assert self.process is not None
        with self.process as process:
            process.send_signal(with_signal)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
