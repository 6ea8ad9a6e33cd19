"""A master and a slave under one name, ours or real ones, each in a process of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from support.interop.cluster import Server
from support.interop.real import LOOPBACK, RealRocketMQ, free_port

FILE_BYTES = 1024 * 1024
SETTINGS: dict[str, Any] = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "mappedFileSizeCommitLog": FILE_BYTES,
    "mappedFileSizeConsumeQueue": 6_000,
    "messageDelayLevel": "1s 2s " + "1s " * 15 + "2h",
    "transactionCheckInterval": 3_600_000,
    "transactionTimeOut": 3_600_000,
    "flushDiskType": "ASYNC_FLUSH",
    "registerNameServerPeriod": 10_000,
}
MASTER: dict[str, Any] = {"brokerRole": "SYNC_MASTER", "brokerId": 0}
SLAVE: dict[str, Any] = {"brokerRole": "SLAVE", "brokerId": 1}
REAL_MASTER: dict[str, Any] = {"inSyncReplicas": 2}
REAL_JVM_FLAGS = ("-Xms128m", "-Xmx384m", "-XX:MaxDirectMemorySize=512m")


class Replica(Protocol):
    """A broker that can end and come back."""

    @property
    def store(self) -> Path: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def become(self, role: Mapping[str, Any]) -> None:
        """Take a role at the next start."""
        ...


@dataclass(slots=True)
class OurReplica:
    server: Server
    store: Path
    settings: dict[str, Any]

    def become(self, role: Mapping[str, Any]) -> None:
        self.settings |= role
        config = Path(self.server.args[self.server.args.index("--config") + 1])
        config.write_text(_written(self.settings))

    def start(self) -> None:
        self.server.start()

    def stop(self) -> None:
        self.server.stop()

    def kill(self) -> None:
        self.server.kill()


@dataclass(slots=True)
class RealReplica:
    real: RealRocketMQ

    @property
    def store(self) -> Path:
        return self.real.store

    def start(self) -> None:
        self.real.start_broker()

    def stop(self) -> None:
        self.real.stop_broker()

    def kill(self) -> None:
        self.real.kill_broker()

    def become(self, role: Mapping[str, Any]) -> None:
        self.real.settings |= {**role, **real_role(role, self.real.version)}


def replica(
    release: str, role: dict[str, Any], directory: Path, namesrv: str, **more: Any
) -> Replica:
    """A broker of ours (``release`` is "ours") or a real one, not started."""
    directory.mkdir(parents=True)
    port = free_port()
    settings = {**SETTINGS, **role, **more}
    if release != "ours":
        settings |= real_role(role, release)
        real = RealRocketMQ(
            release,
            directory,
            jvm_flags=REAL_JVM_FLAGS,
            **{**settings, "namesrvAddr": namesrv},
        )
        real.namesrv = namesrv
        return RealReplica(real)
    config = directory / "broker.conf"
    config.write_text(_written(settings))
    address = f"{LOOPBACK}:{port}"
    args = ["broker", "--data", str(directory / "store"), "--config", str(config)]
    args += ["--listen", address, "--namesrv", namesrv]
    server = Server(address, args, directory / "broker.err")
    return OurReplica(server, directory / "store", settings)


def real_role(role: Mapping[str, Any], release: str) -> dict[str, Any]:
    """What a real broker needs beside its role, so that sends wait for one slave."""
    is_master = role["brokerRole"] == MASTER["brokerRole"]
    return REAL_MASTER if is_master and release.startswith("5") else {}


def _written(settings: Mapping[str, Any]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


@contextmanager
def our_name_server(directory: Path, **settings: Any) -> Iterator[str]:
    address = f"{LOOPBACK}:{free_port()}"
    config = directory / "namesrv.conf"
    config.write_text(_written(settings))
    args = ["namesrv", "--listen", address, "--config", str(config)]
    server = Server(address, args, directory / "namesrv.err")
    server.start()
    try:
        yield address
    finally:
        server.kill()


@contextmanager
def ending(replicas: Sequence[Replica]) -> Iterator[None]:
    """Whatever happens, nothing runs on.  Who is in the sequence at the end counts."""
    try:
        yield
    finally:
        for each in replicas:
            server = each.server if isinstance(each, OurReplica) else None
            if server is not None and server.process is not None:
                server.kill()
            if isinstance(each, RealReplica):
                _end_real(each)


@contextmanager
def running_pair(
    directory: Path,
    master_is: str,
    slave_is: str,
    of_namesrv: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Iterator[tuple[str, Replica, Replica]]:
    """A name server of ours, and a master and its slave that were started; each may end itself."""
    with our_name_server(directory, **(of_namesrv or {})) as namesrv:
        master = replica(master_is, MASTER, directory / "master", namesrv, **settings)
        slave = replica(slave_is, SLAVE, directory / "slave", namesrv, **settings)
        with ending([master, slave]):
            master.start()
            slave.start()
            yield namesrv, master, slave


def swap_roles(master: Replica, slave: Replica) -> tuple[Replica, Replica]:
    """Stop both, whose logs are equal, and start each in the role of the other."""
    master.stop()
    slave.stop()
    for each, role in ((slave, MASTER), (master, SLAVE)):
        each.become(role)
        each.start()
    return slave, master


def queue_files(store: Path) -> dict[str, bytes]:
    """The consume queues of a store, without the room that they have left."""
    root = store / "consumequeue"
    found = {
        str(path.relative_to(root)): path.read_bytes().rstrip(b"\0")
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
    return {name: octets for name, octets in found.items() if octets}


def _end_real(replica: RealReplica) -> None:
    try:
        pid = replica.real.broker_pid
    except AssertionError:
        return  # it does not run
    os.kill(pid, signal.SIGKILL)
    replica.kill()


def same_files(left: Path, right: Path) -> tuple[int, str]:
    """How many bytes two directories of files have in common from their first file on.

    Also says where they begin to differ.  Files that one side has more must be empty: brokers of
    Java make them in advance.
    """
    names = sorted({path.name for each in (left, right) for path in each.iterdir()})
    same = 0
    for name in names:
        mine, theirs = (_octets(each / name) for each in (left, right))
        longest = max(len(mine), len(theirs))
        mine, theirs = mine.ljust(longest, b"\0"), theirs.ljust(longest, b"\0")
        if mine != theirs:
            at = next(at for at in range(longest) if mine[at] != theirs[at])
            there = f"{name} at byte {at}: {mine[at : at + 64]!r}, {theirs[at : at + 64]!r}"
            return same + at, there
        same += len(mine.rstrip(b"\0"))
    return same, ""


def _octets(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
