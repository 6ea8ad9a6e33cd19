"""`flintmq proxy` and `flintmq serve --grpc` serve gRPC clients, and say plainly what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'flintmq[dev]'")

from flintmq.client.admin import Admin
from flintmq.embedded.embedded_users import EmbeddedUser, write_users
from flintmq.proxy.wire.grpc_codes import Code
from support.cli.serving import ANYWHERE, failing, running
from support.metrics.scraping import scrape
from support.net.ports import port_with_one_below
from support.proxy.grpc_client import GrpcClient, new

FREE = ("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE)


def route(topic: str) -> Any:
    request = new("QueryRoute")
    request.topic.name = topic
    return request


def test_both_serve_the_same_broker(tmp_path: Path) -> None:
    with running("serve", *FREE, "--grpc", ANYWHERE, "--data", tmp_path) as served:
        with Admin(namesrv=served.namesrv) as admin:
            admin.create_topic("orders", queues=1)
            admin.create_group("steps", is_ordered=True)
        with running("proxy", "--listen", ANYWHERE, "--namesrv", served.namesrv) as proxy:
            with GrpcClient(served.grpc, "a") as inner, GrpcClient(proxy.grpc, "b") as outer:
                assert inner.send("orders", b"1").status.code == Code.OK
                assert outer.send("orders", b"2").status.code == Code.OK
                found = outer.receive_all("orders", "billing", 2)
                assert sorted(each.body for each in found) == [b"1", b"2"]
                assert inner.ack("orders", "billing", found).status.code == Code.OK
            ended = proxy.stop(), served.stop()

    assert ended == (0, 0)
    assert proxy.line == f"flintmq ready grpc={proxy.grpc}\n"
    assert served.data == tmp_path
    assert "Traceback" not in served.errors + proxy.errors


def audited(path: Path) -> list[tuple[Any, ...]]:
    lines = map(json.loads, path.read_text().splitlines())
    return [
        (each["user"], each["call"], each["request"], each["needs"], each["decision"])
        for each in lines
    ]


def test_a_proxy_with_accounts_audits_calls_and_has_metrics(tmp_path: Path) -> None:
    accounts, audit = tmp_path / "accounts", tmp_path / "audit.jsonl"
    accounts.mkdir()
    write_users([EmbeddedUser("alice", "alice-secret", allow={"Topic:orders": "Pub"})], accounts)
    where = f"127.0.0.1:{port_with_one_below(1)}"
    guarded = ("--acl", "auth", "--accounts", accounts, "--audit", audit, "--audit-all")
    with running("serve", *FREE, "--data", tmp_path / "data") as served:
        with Admin(namesrv=served.namesrv) as admin:
            admin.create_topic("orders", queues=1)
        listens = ("--listen", ANYWHERE, "--namesrv", served.namesrv, "--metrics", where)
        with running("proxy", *listens, *guarded) as proxy:
            with GrpcClient(proxy.grpc, account=("alice", "alice-secret")) as alice:
                alice.send("orders")
                alice.send("secrets")
            with GrpcClient(proxy.grpc, account=("alice", "guessed")) as guesser:
                guesser.send("orders")
            counted = scrape(where)
            ended = proxy.stop(), served.stop()

    assert ended == (0, 0)
    assert audited(audit) == [
        ("alice", "SendMessage", "SEND_MESSAGE_V2", ["Pub Topic:orders"], "allow"),
        ("alice", "SendMessage", "SEND_MESSAGE_V2", ["Pub Topic:secrets"], "deny"),
        ("alice", "SendMessage", "SEND_MESSAGE_V2", [], "deny"),
    ]
    for code, count in {"OK": 1, "UNAUTHORIZED": 2}.items():
        assert counted.value("flintmq_proxy_calls_total", call="SendMessage", code=code) == count


def test_a_proxy_that_others_can_reach_does_not_start_unprotected() -> None:
    code, said = failing("proxy", "--listen", "0.0.0.0:8081")

    assert code == 1
    assert "nothing keeps them out" in said


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--listen", "nonsense"), "give host:port"),
        (("--acl", "auth"), "say where with --accounts DIR"),
        (("--access-key", "a"), "secret"),
    ],
)
def test_settings_nobody_can_use_are_refused(words: tuple[str, ...], text: str) -> None:
    code, said = failing("proxy", *words)

    assert code == 1
    assert text in said


def test_a_broker_open_to_others_by_grpc_alone_does_not_start_unprotected(tmp_path: Path) -> None:
    code, said = failing("serve", *FREE, "--grpc", "0.0.0.0:0", "--data", tmp_path)

    assert code == 1
    assert "0.0.0.0:0" in said
