"""gRPC clients, the console and TLS work before several brokers as before one."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'flintmq[grpc]'")

from flintmq import Admin, Message, Producer
from flintmq.net.tls import ClientTls
from flintmq.proxy.wire.grpc_codes import Code
from support.cli.asking import Shell
from support.cli.serving import ANYWHERE, running
from support.net.certificates import Authority
from support.proxy.grpc_client import GrpcClient

FREE = ("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE)
WAIT_S = 60


def test_grpc_clients_and_the_console_reach_all_brokers(tmp_path: Path) -> None:
    more = ("--grpc", ANYWHERE, "--console", ANYWHERE)
    with running("serve", "--brokers", "2", *FREE, "--data", tmp_path, *more) as served:
        assert served.process.stderr is not None
        lines = iter(served.process.stderr.readline, "")
        link = next(line.split()[-1] for line in lines if "the console is at" in line)
        Shell(served.namesrv).told("topic", "create", "orders", "--queues", "2")
        with GrpcClient(served.grpc) as client:
            bodies = {b"%d" % number for number in range(8)}
            sent = [client.send("orders", body) for body in sorted(bodies)]
            received = client.receive_all("orders", "readers", len(bodies))
        with httpx.Client(timeout=WAIT_S, follow_redirects=True) as browser:
            page = browser.get(link)
        code = served.stop(signal.SIGTERM)

    assert {each.status.code for each in sent} == {Code.OK}
    assert {each.body for each in received} == bodies
    assert all(name in page.text for name in ("broker-a", "broker-b"))
    assert code == 0


def test_with_tls_enforced_all_brokers_serve_who_speaks_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    tls = ("--tls-cert", authority.sign("served"), "--tls-mode", "enforcing")
    data = ("--data", tmp_path / "data")
    trusting = ClientTls(ca_file=authority.ca_file)
    with running("serve", "--brokers", "2", *FREE, *data, *tls) as served:
        with Admin(namesrv=served.namesrv, tls=trusting) as admin:
            admin.create_topic("orders", queues=2)
        with Producer("p", namesrv=served.namesrv, tls=trusting) as producer:
            sent = [producer.send(Message("orders", b"%d" % number)) for number in range(16)]
        code = served.stop()

    assert {each.queue.broker for each in sent} == {"broker-a", "broker-b"}
    assert code == 0
