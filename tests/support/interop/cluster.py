"""Several servers of ours, each in a process of its own that can end and come back.

    with running_cluster(tmp_path) as cluster:
        cluster.brokers["broker-b"].kill()
        cluster.brokers["broker-b"].start()  # same port, same store

What a server says goes to one file for all of them.  One that is stopped in order and does not
end with 0, or that printed a traceback, is an error.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from support.interop import ours
from support.interop.ask import ask
from support.interop.ours import READY, SETTINGS, STOP_TIMEOUT_S, Kind, Served, ready_line
from support.interop.real import LOOPBACK, POLL_INTERVAL_S, free_port

GET_ROUTE = 105
NO_TOPIC = 17
FLUSHES = {"broker-a": "sync", "broker-b": "async"}
REGISTER_MS = 10_000
"""How often a broker registers; RocketMQ allows no shorter time."""


@dataclass(slots=True)
class Server:
    """One process, now or later."""

    address: str
    args: list[str]
    errors: Path
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        assert self.process is None, "it is running"
        with self.errors.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "flintmq", *self.args],
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )

    def wait(self) -> None:
        assert self.process is not None, "it was not launched"
        said = ready_line(self.process)
        if not said.startswith(READY):
            raise RuntimeError(f"no ready line but {said!r}\n{self.errors.read_text()}")

    def stop(self) -> None:
        """End it in order."""
        ended = self._end(signal.SIGTERM)
        if ended != 0:
            raise RuntimeError(f"{self.args} ended with {ended}\n{self.errors.read_text()}")

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def _end(self, with_signal: signal.Signals) -> int | None:
        assert self.process is not None, "it is not running"
        process, self.process = self.process, None
        with process:
            process.send_signal(with_signal)
            try:
                return process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                return None


class Cluster(NamedTuple):
    """Two brokers that register at two name servers."""

    name_servers: list[Server]
    brokers: dict[str, Server]
    errors: Path

    @property
    def namesrv(self) -> str:
        """What clients are given."""
        return ";".join(server.address for server in self.name_servers)

    @property
    def servers(self) -> list[Server]:
        return [*self.brokers.values(), *self.name_servers]

    def end(self) -> None:
        """Stop what runs, brokers first, and see that nothing went wrong."""
        for server in self.servers:
            if server.process is not None:
                server.stop()
        printed = self.errors.read_text()
        if "Traceback" in printed:
            raise RuntimeError(printed)


@contextmanager
def running_cluster(directory: Path) -> Iterator[Cluster]:
    errors = directory / "servers.err"
    name_servers = [_name_server(errors) for _ in range(2)]
    namesrv = ";".join(server.address for server in name_servers)
    brokers = {name: _broker(name, namesrv, directory, errors) for name in FLUSHES}
    cluster = Cluster(name_servers, brokers, errors)
    shown = Served(Kind.OURS, namesrv, "", errors)
    ours.running.append(shown)
    try:
        for together in (name_servers, list(brokers.values())):
            for server in together:
                server.launch()
            for server in together:
                server.wait()
        yield cluster
        cluster.end()
    finally:
        ours.running.remove(shown)
        for server in cluster.servers:
            if server.process is not None:
                server.kill()


def route(namesrv: str, topic: str) -> dict[str, str]:
    """The brokers that have a topic and where they are, as one name server says."""
    header, body = ask(namesrv, GET_ROUTE, {"topic": topic})
    if header["code"] == NO_TOPIC:
        return {}
    assert header["code"] == 0, header
    found: dict[str, Any] = json.loads(body)
    named = {queues["brokerName"] for queues in found["queueDatas"]}
    places = {broker["brokerName"]: broker["brokerAddrs"]["0"] for broker in found["brokerDatas"]}
    assert named == set(places)
    return places


def wait_until(what: str, done: Callable[[], object], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(POLL_INTERVAL_S)


def _name_server(errors: Path) -> Server:
    address = f"{LOOPBACK}:{free_port()}"
    return Server(address, ["namesrv", "--listen", address], errors)


def _broker(name: str, namesrv: str, directory: Path, errors: Path) -> Server:
    address = f"{LOOPBACK}:{free_port()}"
    config = directory / f"{name}.conf"
    settings = {**SETTINGS, "brokerName": name, "registerNameServerPeriod": REGISTER_MS}
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    args = [
        *("broker", "--data", str(directory / name), "--config", str(config)),
        *("--listen", address, "--namesrv", namesrv, "--flush", FLUSHES[name]),
    ]
    return Server(address, args, errors)
