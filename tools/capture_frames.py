"""Record what real clients and real servers say, and write a choice of it to ``frames.jsonl``.

    PYTHONPATH=tests .venv/bin/python tools/capture_frames.py

For each release of the servers and each form of the header, a name server and a broker are
started with a recording proxy in front of them (and between the two), and the Java driver
(`interop/java/Drive.java`) does everything each release of the client can do.  It takes about
fifteen minutes.  Lines of clients that are not run here are kept as they are.

A broker registers its own port.  So that routes lead through the proxy, the proxy replaces that
port in what the broker tells the name server; what is recorded is the original.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from support.golden.exchange import Exchange, choose, lines, pair_up
from support.interop.jvm import JAVA_SOURCES
from support.interop.proxy import RecordingProxy
from support.interop.real import RealRocketMQ, compile_java, jars, missing_tools, run_java

HERE = Path(__file__).parents[1] / "tests" / "golden"
FRAMES = HERE / "frames.jsonl"

SERVERS = ("4.9.7", "5.3.3")
CLIENTS = ("4.9.8", "5.3.3")
FORMS = ("JSON", "ROCKETMQ")
DRIVER_TIMEOUT_S = 600

QUICK_CLIENT = {"rocketmq.client.rebalance.waitInterval": "1000"}


@dataclass(frozen=True, slots=True)
class Proxied:
    """A pair of servers and the three ways into it that are recorded."""

    rocketmq: RealRocketMQ
    clients_to_namesrv: RecordingProxy
    clients_to_broker: RecordingProxy
    broker_to_namesrv: RecordingProxy

    @property
    def addresses(self) -> tuple[str, str]:
        return self.clients_to_namesrv.address, self.clients_to_broker.address

    def take(self, client: str) -> Iterator[Exchange]:
        """What was said since the last call, by clients and by the broker."""
        version = self.rocketmq.version
        talks = (
            (self.clients_to_namesrv, client, "client", "namesrv"),
            (self.clients_to_broker, client, "client", "broker"),
            (self.broker_to_namesrv, f"broker-{version}", "broker", "namesrv"),
        )
        for proxy, who, near, far in talks:
            yield from pair_up(proxy.take(), who, version, near, far)


def proxied(
    stack: ExitStack, version: str, directory: Path, form: str, *, compress: bool = False
) -> Proxied:
    rocketmq = RealRocketMQ(
        version,
        directory,
        serialize_type=form,
        compressedRegister=compress,
        forceRegister=False,  # else a broker never asks what the name server knows of it
        messageDelayLevel=" ".join(["1s"] * 18),
        registerNameServerPeriod=10_000,
        transactionTimeOut=1_000,
        transactionCheckInterval=1_000,
    )
    to_namesrv = stack.enter_context(RecordingProxy(rocketmq.namesrv))
    to_broker = stack.enter_context(RecordingProxy(rocketmq.broker))

    def lead_through_proxy(frame: bytes) -> bytes:
        return frame.replace(rocketmq.broker.encode(), to_broker.address.encode())

    registrations = RecordingProxy(rocketmq.namesrv, rewrite=lead_through_proxy)
    stack.enter_context(registrations)
    rocketmq.settings["namesrvAddr"] = registrations.address
    stack.enter_context(rocketmq)
    return Proxied(rocketmq, to_namesrv, to_broker, registrations)


def drive(
    namesrv: str, broker: str, version: str, form: str, work: str, props: Mapping[str, str]
) -> None:
    """Run the driver with one release of the client and print the steps that failed."""
    lib = jars(["tools"], version)
    sources = [JAVA_SOURCES / f"{name}.java" for name in ("Drive", "DriveAdmin", "Calls")]
    prefix = f"{version[0]}{work[0]}"
    printed = run_java(
        "Drive",
        [namesrv, broker, prefix, work],
        [lib, compile_java(sources, lib)],
        {**QUICK_CLIENT, "rocketmq.serialize.type": form, **props},
        timeout_s=DRIVER_TIMEOUT_S,
    )
    for line in printed.splitlines():
        if line.startswith("failed"):
            print(f"    {line[:160]}")
    if "done" not in printed:
        raise RuntimeError(f"the driver did not finish\n{printed}")


def capture(version: str, form: str) -> Iterator[Exchange]:
    with tempfile.TemporaryDirectory(prefix="golden-") as directory, ExitStack() as stack:
        servers = proxied(stack, version, Path(directory), form)
        for client in CLIENTS:
            print(f"java {client}, servers {version}, {form} headers", flush=True)
            drive(*servers.addresses, client, form, "all", {})
            yield from servers.take(f"java-{client}")
        if form == "JSON":
            yield from compressed(servers)
        # Only a broker that is stopped in order says goodbye to the name server.
        servers.rocketmq.stop_broker()
        yield from servers.take("nobody")


def packed_registration() -> Iterator[Exchange]:
    """A registration with a compressed body.  5.3.3 can be told to send one, but not to read it."""
    with tempfile.TemporaryDirectory(prefix="golden-") as directory, ExitStack() as stack:
        servers = proxied(stack, SERVERS[0], Path(directory), "JSON", compress=True)
        servers.rocketmq.stop_broker()
        yield from servers.take("nobody")


def compressed(servers: Proxied) -> Iterator[Exchange]:
    """Sends of the newer client with the other compressions, and with the old send request."""
    client = CLIENTS[-1]
    for name in ("LZ4", "ZSTD"):
        print(f"java {client}, servers {servers.rocketmq.version}, {name}", flush=True)
        props = {
            "rocketmq.message.compressType": name,
            "org.apache.rocketmq.client.sendSmartMsg": "false",
        }
        drive(*servers.addresses, client, "JSON", "send", props)
        yield from servers.take(f"java-{client}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--servers", nargs="*", default=SERVERS, help="releases to start")
    parser.add_argument("--forms", nargs="*", default=FORMS, help="header forms to record")
    wanted = parser.parse_args()
    reason = missing_tools("java", "mvn")
    if reason is not None:
        parser.error(reason)
    runs = [capture(version, form) for version in wanted.servers for form in wanted.forms]
    chosen = choose(chain(packed_registration(), *runs))
    run = {(exchange.client, exchange.broker) for exchange in chosen}
    kept = [
        line
        for line in map(json.loads, FRAMES.read_text().splitlines())
        if (line["client"], line["broker"]) not in run
    ]
    first_pair = 1 + max((int(line["pair"]) for line in kept), default=0)
    written = [*kept, *lines(chosen, first_pair)]
    FRAMES.write_text("".join(json.dumps(line) + "\n" for line in written))
    codes = {(line["code"], line["role"]) for line in written}
    print(f"{len(written)} frames, {len(codes)} codes and roles, {FRAMES.stat().st_size} bytes")


if __name__ == "__main__":
    main()
