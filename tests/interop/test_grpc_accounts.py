"""Official gRPC clients with accounts: the right one is served, others are told why they are not.

All scenarios of a client run with each account; the broker has one topic and group for each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flintmq.client.admin import Admin
from flintmq.embedded.embedded_users import EmbeddedUser, write_users
from support.interop.grpcclients import Behind, GrpcKind, Proxied, make_names, play, proxied
from support.interop.skipping import skip_without
from support.interop.told import Event, Told

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

ROOT = EmbeddedUser("root", "root-secret", is_super=True)
SHOP = EmbeddedUser("shop", "shop-secret", allow={"Topic:*": "Pub,Sub", "Group:*": "Sub"})
READER = EmbeddedUser("reader", "reader-secret", allow={"Topic:other": "Sub"})
KINDS = (GrpcKind.PYTHON, GrpcKind.NODE, GrpcKind.JAVA_5_2, GrpcKind.GO)
TELLING = (GrpcKind.JAVA_5_2, GrpcKind.GO)
"""Clients that tell their program why; the others only say that there is no route."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A proxy with accounts, and where it says whom it refused."""

    proxy: Proxied
    audit: Path

    def refused(self) -> list[dict[str, Any]]:
        lines = map(json.loads, self.audit.read_text().splitlines())
        return [each for each in lines if each["decision"] == "deny" and "call" in each]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'flintmq[dev]'")
    directory = tmp_path_factory.mktemp("guarded")
    accounts, audit = directory / "accounts", directory / "audit.jsonl"
    accounts.mkdir()
    write_users([ROOT, SHOP, READER], accounts)
    options = ("--acl", "auth", "--accounts", str(accounts), "--audit", str(audit))
    with proxied(Behind.OURS, directory, *options) as up:
        with Admin(namesrv=up.namesrv, access_key="root", secret_key="root-secret") as admin:
            for kind in KINDS:
                make_names(admin, kind.prefix)
        yield Guarded(up, audit)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> GrpcKind:
    chosen: GrpcKind = request.param
    skip_without(*chosen.tools)
    return chosen


def test_an_account_with_rights_is_served_everything(guarded: Guarded, kind: GrpcKind) -> None:
    before = len(guarded.refused())

    told = Told(play(kind, guarded.proxy.grpc, kind.prefix, "shop", "shop-secret"))

    assert sorted(told.bodies("normal", "got")) == ["m0", "m2", "m4", "m6", "m8"]
    assert told.bodies("fifo", "got") == [f"f{number}" for number in range(10)]
    assert set(told.bodies("tx", "got")) == {"commit", "forgotten"}
    assert told.bodies("dead", "buried") == ["poison"]
    assert guarded.refused()[before:] == []


@pytest.mark.parametrize(
    ("account", "reason"),
    [
        (("shop", "guessed"), "check signature failed."),
        (("nobody", "guessed"), "User:nobody is not found."),
        (("reader", "reader-secret"), "reader has no permission"),
    ],
    ids=["wrong-secret", "unknown", "no-rights"],
)
def test_other_accounts_are_refused_and_told_why(
    guarded: Guarded, kind: GrpcKind, account: tuple[str, str], reason: str
) -> None:
    before = len(guarded.refused())

    told = play(kind, guarded.proxy.grpc, kind.prefix, *account)

    assert [each for each in told if each["event"] in ("sent", "got", "buried")] == []
    assert failures(told), told
    if kind in TELLING:
        assert any(reason in text for text in failures(told)), failures(told)
    refused = guarded.refused()[before:]
    assert refused
    for each in refused:
        assert each["user"] in (account[0], None)
        assert reason in each["reason"]


def failures(told: list[Event]) -> list[str]:
    return [each["failure"] for each in told if each.get("failure")]
