"""The audit log has every refusal and every allowed request of administrators, stays below its
limit, and stops no server when it cannot be written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flintmq import Admin, FlintError, Message, Producer
from flintmq.access.rules import Dialect
from flintmq.embedded.account_files import AccountPlan
from flintmq.embedded.audit_log import AuditLog
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.embedded_users import EmbeddedUser, write_users
from flintmq.errors import InvalidSetting
from support.embedded.audited import a_refusal

USERS = [
    EmbeddedUser("root", "rootpw12", is_super=True),
    EmbeddedUser("alice", "alicepw1", allow={"Topic:orders": "Pub"}),
]


class Audited(EmbeddedBroker):
    """An embedded broker whose decisions are logged."""

    def __init__(self, audit: Path, *, audits_all: bool = False) -> None:
        super().__init__(accounts=USERS)
        self._audit, self._audits_all = audit, audits_all

    def _account_plan(self, directory: Path) -> AccountPlan:
        write_users(USERS, directory)
        return AccountPlan(
            Dialect.AUTH,
            directory,
            inner=self._inner,
            audit=self._audit,
            audits_all=self._audits_all,
        )


@contextmanager
def asked(audit: Path, *, audits_all: bool = False) -> Iterator[Audited]:
    """A broker that alice has sent to, and has been refused by."""
    with Audited(audit, audits_all=audits_all) as broker:
        with Admin(namesrv=broker.namesrv, **broker.account("root")) as admin:
            admin.create_topic("orders")
            admin.create_topic("other")
        alice = broker.account("alice")
        with Producer("p", namesrv=broker.namesrv, retries=0, **alice) as producer:
            for _ in range(3):
                producer.send(Message("orders", b"o-1"))
            with pytest.raises(FlintError):
                producer.send(Message("other", b"o-1"))
        yield broker


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_refusals_and_administrative_requests_are_logged(tmp_path: Path) -> None:
    audit = tmp_path / "log" / "audit.jsonl"
    with asked(audit):
        found = entries(audit)

    refused = [each for each in found if each["decision"] == "deny"]
    assert refused
    for each in refused:
        assert each["user"] == "alice"
        assert each["address"].startswith("127.0.0.1:")
        assert each["request"] == "GET_ROUTEINFO_BY_TOPIC"
        assert each["needs"] == ["Pub or Sub or Get Topic:other"]
        assert "no permission to access Topic:other" in each["reason"]
        assert each["time"].endswith("Z")
    created = [each for each in found if each["request"] == "UPDATE_AND_CREATE_TOPIC"]
    assert [(each["user"], each["decision"], each["needs"]) for each in created] == [
        ("root", "allow", ["Create Topic:orders"]),
        ("root", "allow", ["Create Topic:other"]),
    ]
    assert not any("SEND" in each["request"] for each in found)
    assert not any(each["request"] == "HEART_BEAT" for each in found)


def test_all_requests_are_logged_where_that_is_wanted(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    with asked(audit, audits_all=True):
        found = entries(audit)

    sends = [each for each in found if each["request"] == "SEND_MESSAGE_V2"]
    assert [(each["user"], each["needs"]) for each in sends] == [
        ("alice", ["Pub Topic:orders"])
    ] * 3


def test_it_has_no_secrets_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    with asked(audit, audits_all=True):
        text = audit.read_text()

    assert audit.stat().st_mode & 0o077 == 0
    assert "rootpw12" not in text
    assert "alicepw1" not in text


def test_files_are_renamed_and_the_oldest_removed(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", bytes_max=1_000, files_max=3)
    for number in range(100):
        log.record(a_refusal(f"user-{number}"))
    log.close()

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    assert all(path.stat().st_size <= 1_000 for path in tmp_path.iterdir())
    assert entries(tmp_path / "audit.jsonl")[-1]["user"] == "user-99"


def test_a_long_reason_is_cut(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.record(a_refusal("x" * 100_000))
    log.close()

    assert (tmp_path / "audit.jsonl").stat().st_size < 2_000


def test_a_full_disk_is_one_warning_and_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(Path("/dev/full"))
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            log.record(a_refusal("alice"))
    log.close()

    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "the audit log /dev/full cannot be written"
    ]


def test_a_file_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="audit"):
        AuditLog(tmp_path)
