"""RocketMQ's own proxy for gRPC clients, before a real broker."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.interop.jvm import jars, start_java
from support.interop.real import free_port

VERSION = "5.3.3"
READY_S = 90.0
STOP_S = 60


@contextmanager
def real_proxy(namesrv: str, directory: Path) -> Iterator[str]:
    """A proxy in cluster mode; gives the address of its gRPC port."""
    directory.mkdir(parents=True)
    port, remoting = free_port(), free_port()
    config = directory / "rmq-proxy.json"
    settings = {
        "rocketMQClusterName": "DefaultCluster",
        "proxyMode": "CLUSTER",
        "namesrvAddr": namesrv,
        "grpcServerPort": port,
        "remotingListenPort": remoting,
        "localServeAddr": "127.0.0.1",
    }
    config.write_text(json.dumps(settings))
    properties = {
        "com.rocketmq.proxy.configPath": str(config),
        "RMQ_PROXY_HOME": str(directory),
        "user.home": str(directory),
        "rocketmq.home.dir": str(directory),
    }
    output = directory / "proxy.log"
    process = start_java(
        "org.apache.rocketmq.proxy.ProxyStartup",
        ["-n", namesrv, "-pm", "cluster", "-pc", str(config)],
        jars(["proxy"], VERSION),
        properties,
        jvm_flags=("-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=1g"),
        output=output,
    )
    try:
        deadline_s = time.monotonic() + READY_S
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"the proxy did not start: {output.read_text()[-2000:]}")
            time.sleep(0.2)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(STOP_S)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
