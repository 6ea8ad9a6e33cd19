"""Round trips over loopback: how many a second, and what a call costs each end.

The server is a process of its own that answers a body of 128 bytes with an empty one; it is
asked for its CPU time over the same wire.  "64 deep" has 64 calls under way at any time.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Self

from flintmq.net.address import Address
from flintmq.net.blocking import blocking
from flintmq.net.channels import channel_pool as aio
from flintmq.net.channels.channel import Channel
from flintmq.net.loop import new_event_loop
from flintmq.net.servers.server import serve_commands
from flintmq.protocol.command import Command, answer, request

LOOPS = {"uvloop": new_event_loop, "asyncio": asyncio.new_event_loop}
ECHO, CPU_TIME = 10, 999
CALLS = 20_000
DEPTH = 64
TIMEOUT_MS = 10_000
BODY = bytes(128)
LARGE_BYTES, LARGE_CALLS = 1024 * 1024, 200


def handle(asked: Command, _channel: Channel) -> Command:
    if asked.code == CPU_TIME:
        return answer(asked, 0, remark=str(time.process_time_ns()))
    return answer(asked, 0, body=bytes(int(asked.remark or 0)))


async def serve_until_stdin_ends() -> None:
    server = await serve_commands(Address("127.0.0.1", 0), handle)
    print(server.address, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop()


class ServerProcess:
    """The other end, on the loop of the given name."""

    def __init__(self, loop: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.net", loop],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def cpu_ns(self) -> int:
        with blocking.connect(self.address) as channel:
            return int(channel.call(request(CPU_TIME), TIMEOUT_MS).remark or 0)


async def call_async(address: str, calls: int, depth: int) -> None:
    channel = await aio.connect(address)
    asked = request(ECHO, body=BODY)

    async def some(count: int) -> None:
        for _ in range(count):
            await channel.call(asked, TIMEOUT_MS)

    await asyncio.gather(*(some(calls // depth) for _ in range(depth)))
    await channel.close()


def call_blocking(address: str, calls: int, depth: int, body_bytes: int = 0) -> None:
    asked = Command(code=ECHO, body=BODY, remark=str(body_bytes))
    with blocking.connect(address) as channel:
        tokens = [channel.start(asked, TIMEOUT_MS) for _ in range(depth)]
        for _ in range(calls // depth - 1):
            for at, token in enumerate(tokens):
                channel.finish(token)
                tokens[at] = channel.start(asked, TIMEOUT_MS)
        for token in tokens:
            channel.finish(token)


def on_loop(name: str, work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=LOOPS[name]) as runner:
        runner.run(work)


def call_on_loop(loop: str, address: str, calls: int, depth: int) -> None:
    on_loop(loop, call_async(address, calls, depth))


def measure(
    name: str, server: ServerProcess, calls: int, work: Callable[[], None]
) -> list[dict[str, Any]]:
    server_ns, client_ns, start_ns = server.cpu_ns(), time.process_time_ns(), time.monotonic_ns()
    work()
    spent_ns = time.monotonic_ns() - start_ns
    client_ns = time.process_time_ns() - client_ns
    server_ns = server.cpu_ns() - server_ns
    return [
        {"name": f"{name}: calls", "value": calls / spent_ns * 1e9, "unit": "per second, wall"},
        {"name": f"{name}: client", "value": client_ns / calls / 1e3, "unit": "µs CPU per call"},
        {"name": f"{name}: server", "value": server_ns / calls / 1e3, "unit": "µs CPU per call"},
    ]


def run_on(loop: str, server: ServerProcess) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for depth, calls in ((1, CALLS // 4), (DEPTH, CALLS)):
        rows += measure(
            f"{loop}, {depth} deep",
            server,
            calls,
            partial(call_on_loop, loop, server.address, calls, depth),
        )
        rows += measure(
            f"blocking to {loop}, {depth} deep",
            server,
            calls,
            partial(call_blocking, server.address, calls, depth),
        )
    return rows + measure(
        f"blocking to {loop}, 2 deep, 1 MiB",
        server,
        LARGE_CALLS,
        partial(call_blocking, server.address, LARGE_CALLS, 2, LARGE_BYTES),
    )


def run() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for loop in LOOPS:
        with ServerProcess(loop) as server:
            rows += run_on(loop, server)
    return rows


if __name__ == "__main__":
    on_loop(sys.argv[1], serve_until_stdin_ends())
