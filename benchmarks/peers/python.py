"""Our Python client and broker beside the Python clients of other systems and their servers.

    python -m benchmarks.peers.python [--seconds N] [--rounds N] [--only CLIENT …] [--out FILE]

All servers are up the whole time, each client is a process of its own, and the clients take turns,
round by round.  Bodies have 128 bytes; no server waits for its disk.  CPU is each process's own
account, that of the server apart.  Each client is put into an environment of its own with pip; one
that cannot be had, or whose server cannot, is left out with the reason.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import RESULTS
from benchmarks.peers.kafka import kafka_jars, kafka_side
from benchmarks.peers.real_proxy import real_proxy
from benchmarks.peers.servers import NoServer, nats_side, redis_side
from benchmarks.peers.sides import ROOT, Load, Row, Running, our_side, real_side
from benchmarks.report.results import Measured, save
from support.interop.jvm import make_once, missing_tools, run_tool

CLIENTS = {
    "aiokafka": ("aiokafka", "0.14.0", "kafka"),
    "kafka-python": ("kafka-python[crc32c]", "3.0.12", "kafka"),
    "confluent-kafka": ("confluent-kafka", "2.16.1", "kafka"),
    "redis-py": ("redis[hiredis]", "8.1.0", "redis"),
    "nats-py": ("nats-py", "2.16.0", "nats"),
}
"""Package, release and server of each; with the part in C that its documentation advises."""

ROCKETMQ_CLIENTS = {
    "rocketmq": ("rocketmq", "0.4.4"),
    "rocketmq-python-client": ("rocketmq-python-client", "5.1.2"),
}
"""What Python programs use for RocketMQ besides ours: the C++ binding, and gRPC over a proxy."""

ROCKETMQ = "5.3.3"
SIZE = 128
BACKLOG = 200_000
UNDER_WAY = 1_000
PULL_COUNT = 1_024  # as much as our broker gives; others have no such limit
INSTALL_TIMEOUT_S = 600

CONSUME = "consume a backlog, 128 B"
SEND = "send one by one, 128 B"
SEND_MANY = "send many at once, 128 B"
ROCKETMQ_SEND = f"send one by one, 128 B, on RocketMQ {ROCKETMQ}"
ROCKETMQ_MANY = f"send many at once, 128 B, on RocketMQ {ROCKETMQ}"
ROCKETMQ_PUSH = f"push of a backlog, 128 B, on RocketMQ {ROCKETMQ}"
ROCKETMQ_BACKLOG = 20_000
"""A second for ours; the others take longer."""

Commands = dict[str, str]


@dataclass
class Side:
    """A client with its server, and what it is told for each workload."""

    name: str
    load: Load
    server: Running
    commands: Commands


def our_sides(server: Running, load: Load, backlog: int, seconds: int) -> Iterator[Side]:
    where = server.namesrv
    sends = {
        SEND: f"send {where} one {SIZE} 1 {seconds}",
        SEND_MANY: f"async {where} many {SIZE} {seconds} {UNDER_WAY}",
    }
    many = f"many {where} many {SIZE} {seconds} {UNDER_WAY}"
    pull = f"{where} backlog {backlog} {PULL_COUNT}"
    yield Side("flintmq", load, server, sends)
    yield Side("flintmq, auto_batch", load, server, {SEND_MANY: many})
    yield Side("flintmq, lite pull", load, server, {CONSUME: f"lite {pull}"})
    yield Side("flintmq, pull", load, server, {CONSUME: f"pull {pull}"})
    yield Side("flintmq, push", load, server, {CONSUME: f"push {where} backlog {backlog} 32"})


def their_side(name: str, server: Running, load: Load, backlog: int, seconds: int) -> Side:
    topic = name.replace("-", "_")
    load.run(f"make {topic}_one")
    load.run(f"make {topic}_many")
    commands = {
        SEND: f"send {topic}_one {SIZE} {seconds}",
        SEND_MANY: f"async {topic}_many {SIZE} {seconds}",
        CONSUME: f"consume backlog {backlog}",
    }
    return Side(name, load, server, commands)


def client_python(package: str, release: str) -> Path:
    """The Python of an environment that has this client."""

    def install(made: Path) -> None:
        run_tool([sys.executable, "-m", "venv", str(made)], INSTALL_TIMEOUT_S)
        pip = [str(made / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        run_tool([*pip, f"{package}=={release}"], INSTALL_TIMEOUT_S)

    python = f"py{sys.version_info[0]}.{sys.version_info[1]}"
    name = package.replace("[", "-").replace("]", "")
    return make_once(f"python/{name}-{release}-{python}", install) / "bin" / "python"


def start_client(name: str, address: str) -> Load:
    package, release = ROCKETMQ_CLIENTS.get(name) or CLIENTS[name][:2]
    program = [str(client_python(package, release)), "-m", "benchmarks.peers.python_load"]
    return Load(
        subprocess.Popen(
            [*program, name, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    )


def open_kafka(directory: Path) -> AbstractContextManager[Running]:
    if reason := missing_tools("java", "mvn"):
        raise NoServer(reason)
    try:
        kafka_jars()
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        raise NoServer(f"cannot be fetched: {str(error).splitlines()[0]}") from None
    return kafka_side(directory)


SERVERS: dict[str, Callable[[Path], AbstractContextManager[Running]]] = {
    "kafka": open_kafka,
    "redis": redis_side,
    "nats": nats_side,
}


class Bench:
    """All clients and servers that can be had."""

    def __init__(self, stack: ExitStack, work: Path, backlog: int, seconds: int) -> None:
        self._stack = stack
        self._work = work
        self._sizes = backlog, seconds
        self.sides: list[Side] = []
        self.skipped: dict[str, str] = {}
        self._servers: dict[str, Running] = {}
        self._filled: set[str] = set()

    def add_ours(self) -> None:
        server = self._stack.enter_context(our_side(self._work / "ours"))
        load = Load.ours()
        self._stack.callback(load.close)
        stored = 0.0
        while stored < self._sizes[0]:
            stored += load.run(f"batch {server.namesrv} backlog {SIZE} 4 1 32")["count"]
        self._servers["flintmq"] = server
        self.sides += our_sides(server, load, *self._sizes)

    def add(self, name: str) -> None:
        _, _, kind = CLIENTS[name]
        try:
            if kind not in self._servers:
                opened = SERVERS[kind](self._work / kind)
                self._servers[kind] = self._stack.enter_context(opened)
            server = self._servers[kind]
            load = start_client(name, server.namesrv)
        except NoServer as error:
            self.skipped[name] = str(error)
            return
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            self.skipped[name] = f"cannot be fetched: {str(error).splitlines()[0]}"
            return
        self._stack.callback(load.close)
        try:
            if kind not in self._filled:
                load.run("make backlog")
                load.run(f"fill backlog {SIZE} {self._sizes[0]}")
                self._filled.add(kind)
            self.sides.append(their_side(name, server, load, *self._sizes))
        except SystemExit as error:  # it does not do what it is told; others may
            self.skipped[name] = str(error)

    def add_rocketmq(self, names: Sequence[str]) -> None:
        """Clients of a real RocketMQ, ours among them; messages are put there by ours."""
        if reason := missing_tools("java", "mvn"):
            self.skipped |= dict.fromkeys(names, reason)
            return
        server = self._stack.enter_context(real_side(ROCKETMQ, self._work / "rocketmq"))
        self._servers["rocketmq"] = server
        load, where, seconds = Load.ours(), server.namesrv, self._sizes[1]
        self._stack.callback(load.close)
        stored = 0.0
        while stored < ROCKETMQ_BACKLOG:
            stored += load.run(f"batch {where} backlog {SIZE} 4 1 32")["count"]
        commands = {
            ROCKETMQ_SEND: f"send {where} one {SIZE} 1 {seconds}",
            ROCKETMQ_MANY: f"many {where} many {SIZE} {seconds} {UNDER_WAY}",
            ROCKETMQ_PUSH: f"push {where} backlog {ROCKETMQ_BACKLOG} 32",
        }
        self.sides.append(Side("flintmq", load, server, commands))
        for name in names:
            try:
                self.sides.append(self._rocketmq_side(name, server))
            except (RuntimeError, OSError, subprocess.TimeoutExpired, SystemExit) as error:
                self.skipped[name] = str(error).splitlines()[0]

    def _rocketmq_side(self, name: str, server: Running) -> Side:
        where = server.namesrv
        if name != "rocketmq":
            where = self._stack.enter_context(real_proxy(where, self._work / "proxy"))
        load = start_client(name, where)
        self._stack.callback(load.close)
        load.run("make one")
        seconds = self._sizes[1]
        commands = {
            ROCKETMQ_SEND: f"send one {SIZE} {seconds}",
            ROCKETMQ_MANY: f"async one {SIZE} {seconds}",
            ROCKETMQ_PUSH: f"consume backlog {ROCKETMQ_BACKLOG}",
        }
        return Side(name, load, server, commands)

    def versions(self) -> dict[str, str]:
        ups = (up.name.rpartition(" ") for kind, up in self._servers.items() if kind != "flintmq")
        servers = {name: release for name, _, release in ups}
        clients = {side.name: CLIENTS[side.name][1] for side in self.sides if side.name in CLIENTS}
        others = {name: release for name, (_, release) in ROCKETMQ_CLIENTS.items()}
        used = {side.name for side in self.sides}
        return servers | clients | {name: others[name] for name in used & others.keys()}


def measure(side: Side, command: str) -> Row:
    before_s = side.server.cpu_s()
    result = side.load.run(command)
    count = max(1, result["count"])
    return {
        "rate": count / result["seconds"],
        "client_us": result["cpu_s"] * 1e6 / count,
        "server_us": (side.server.cpu_s() - before_s) * 1e6 / count,
    }


def alternate(sides: list[Side], name: str, rounds: int, ended: dict[str, str]) -> Measured:
    """The first round warms up and does not count.

    A client of others whose process ended is left out from there on, with the reason.
    """
    found = Measured(name)
    able = [side for side in sides if name in side.commands]
    for number in range(rounds + 1):
        for side in able if number % 2 == 0 else reversed(able):
            if side.name in ended:
                continue
            try:
                row = measure(side, side.commands[name])
            except (SystemExit, BrokenPipeError) as error:
                if side.name.startswith("flintmq"):
                    raise
                ended[side.name] = f"ended in {name!r}: {error}"
                continue
            if number:
                found.add(side.name, row)
    return found


def show(found: list[Measured]) -> None:
    table = Table("workload", "client", "a second", "client µs", "server µs")
    for each in found:
        for side in sorted(each.rows):
            figures = [each.median(side, name) or 0 for name in ("rate", "client_us", "server_us")]
            rate, client_us, server_us = figures
            table.add_row(each.name, side, f"{rate:,.0f}", f"{client_us:.1f}", f"{server_us:.1f}")
    Console(width=120).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=int, default=4, help="length of one round of sending")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backlog", type=int, default=BACKLOG, help="messages to consume")
    parser.add_argument("--only", nargs="*", default=[], help="clients beside ours, by name")
    parser.add_argument("--out", type=Path, default=RESULTS / "peers_python.json")
    parser.add_argument(
        "--add", action="store_true", help="keep the published figures of other workloads"
    )
    given = parser.parse_args()
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = Bench(stack, work, given.backlog, given.seconds)
        bench.add_ours()
        wanted = given.only or [*CLIENTS, *ROCKETMQ_CLIENTS]
        for client in (name for name in wanted if name in CLIENTS):
            print(f"… {client}", file=sys.stderr, flush=True)
            bench.add(client)
        if names := [name for name in wanted if name in ROCKETMQ_CLIENTS]:
            bench.add_rocketmq(names)
        found = []
        for name in (CONSUME, SEND, SEND_MANY, ROCKETMQ_SEND, ROCKETMQ_MANY, ROCKETMQ_PUSH):
            print(f"… {name}", file=sys.stderr, flush=True)
            found.append(alternate(bench.sides, name, given.rounds, bench.skipped))
    show(found)
    for client, reason in bench.skipped.items():
        print(f"skipped {client}: {reason}")
    if given.add:
        found = [each for each in found if len(each.rows) > 1]  # ours alone says nothing
    settings = {name: getattr(given, name) for name in ("seconds", "rounds", "backlog")}

    versions, skipped = bench.versions(), bench.skipped
    save(given.out, found, versions=versions, settings=settings, skipped=skipped, adds=given.add)
    return 0


if __name__ == "__main__":
    sys.exit(main())
