"""Servers of other systems that a Python client is measured with: Redis and NATS.

What is installed is used.  What is not is fetched with apt, as packages that are unpacked into the
cache and not installed, so nobody needs rights for it; without apt there is no such server.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers.sides import Running
from support.interop.jvm import make_once, run_tool
from support.interop.real import free_port

FETCH_TIMEOUT_S = 300
READY_TIMEOUT_S = 30

PACKAGES = {
    "redis-server": ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1"),
    "nats-server": ("nats-server",),
}
"""Where a server is, and what it needs that not every system has."""


class NoServer(Exception):
    """Why a server cannot be had."""


def find(name: str) -> tuple[str, dict[str, str]]:
    """A server's program and the environment it needs."""
    if found := shutil.which(name) or shutil.which(name, path="/usr/sbin"):
        return found, dict(os.environ)
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NoServer(f"{name} is not installed, and there is no apt to fetch it with")
    try:
        root = make_once(f"debian/{name}", lambda made: _fetch(PACKAGES[name], made))
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        raise NoServer(f"{name} cannot be fetched: {str(error).splitlines()[0]}") from None
    programs = [root / "usr" / part / name for part in ("bin", "sbin")]
    found = next((str(path) for path in programs if path.exists()), None)
    if found is None:
        raise NoServer(f"{name} is not in its package")
    libraries = [str(path) for path in (root / "usr" / "lib").glob("*-linux-gnu*")]
    return found, {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}


def _fetch(packages: Sequence[str], made: Path) -> None:
    run_tool(["apt-get", "download", *packages], FETCH_TIMEOUT_S, str(made))
    for package in list(made.glob("*.deb")):
        run_tool(["dpkg-deb", "-x", str(package), str(made)], FETCH_TIMEOUT_S)
        package.unlink()


@contextmanager
def redis_side(directory: Path) -> Iterator[Running]:
    """With a log on the disk that is synced every second; without it, it keeps nothing."""
    port = str(free_port())
    log = ["--appendonly", "yes", "--save", "", "--dir", str(directory)]
    with _running("redis-server", ["--bind", "127.0.0.1", "--port", port, *log], directory) as up:
        yield up


@contextmanager
def nats_side(directory: Path) -> Iterator[Running]:
    """With JetStream, which keeps its streams in files."""
    port = str(free_port())
    streams = ["--jetstream", "--store_dir", str(directory)]
    with _running(
        "nats-server", ["--addr", "127.0.0.1", "--port", port, *streams], directory
    ) as up:
        yield up


@contextmanager
def _running(name: str, args: Sequence[str], directory: Path) -> Iterator[Running]:
    program, env = find(name)
    said = subprocess.run(
        [program, "--version"], env=env, capture_output=True, text=True, check=True
    )
    version = said.stdout.split("v=" if "v=" in said.stdout else ": v")[1].split()[0]
    directory.mkdir(parents=True)
    port = int(args[args.index("--port") + 1])
    started = time.monotonic()
    with (directory / "output.txt").open("w") as output:
        process = subprocess.Popen(
            [program, *args], env=env, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        while True:
            with socket.socket() as sock:
                if sock.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() - started > READY_TIMEOUT_S:
                raise NoServer(f"{name}: {(directory / 'output.txt').read_text()[-500:]}")
            time.sleep(0.02)
        ready_s = time.monotonic() - started
        yield Running(f"{name} {version}", f"127.0.0.1:{port}", process.pid, ready_s)
    finally:
        process.kill()  # what it holds is thrown away
        process.wait(30)
