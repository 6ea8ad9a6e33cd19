"""Our clients speak TLS with real brokers.  Accounts are in `test_our_access`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, Producer, PushConsumer
from flintmq.client.admin import Admin
from flintmq.errors import SendFailed, Unreachable
from flintmq.net.tls import ClientTls
from support.client.push_support import Ear
from support.client.support import nothing_left
from support.interop.filled import SEND_MS, numbered, patiently
from support.interop.real import RealRocketMQ, ServerTls
from support.net.certificates import Authority

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(600),  # the first run fetches the jars
]

OLD, NEW = "4.9.7", "5.3.3"
CALL_MS = 15_000


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_broker_that_enforces_tls_serves_all_our_clients(version: str, tmp_path: Path) -> None:
    """It asks for a certificate of the client too."""
    authority = Authority(tmp_path, "authority")
    pem, own = Path(authority.sign("broker")), authority.sign("client")
    home = tmp_path / "rocketmq"
    home.mkdir()
    server = ServerTls(pem, pem, trusted=Path(authority.ca_file))
    of_broker = {  # a client of the name server, which asks as well
        "tls.client.certPath": str(pem),
        "tls.client.keyPath": str(pem),
        "tls.client.trustCertPath": authority.ca_file,
    }
    trusting = ClientTls(ca_file=authority.ca_file, certificate_file=own)
    with RealRocketMQ(version, home, tls=server, props=of_broker) as servers:
        common: dict[str, Any] = {"namesrv": servers.namesrv, "call_timeout_ms": CALL_MS}
        ear = Ear()
        with (
            nothing_left(),
            Admin(**common, tls=trusting) as admin,
            Producer("shop", **common, tls=trusting) as producer,
        ):
            admin.create_topic("orders", queues=2)
            for body in numbered(10):
                producer.send(Message("orders", body), timeout_ms=SEND_MS)
            consumer = PushConsumer("billing", ear, start_from="first", **common, tls=trusting)
            with consumer.subscribe("orders"):
                patiently(lambda: len(ear.messages) == 10)
            assert admin.lag("billing", topic="orders").lag == 0
        assert sorted(ear.bodies) == numbered(10)

        without_certificate = ClientTls(ca_file=authority.ca_file)
        for tls, words in (
            (False, "closed the connection"),
            (True, "not trusted"),  # by the authorities of the system
            (without_certificate, "does not accept"),
        ):
            with (
                Producer("shop", **common, tls=tls) as producer,
                pytest.raises((SendFailed, Unreachable), match=words),
            ):
                producer.send(Message("orders", b"never"), timeout_ms=5_000)
        with Admin(**common, tls=trusting) as admin:
            assert sum(stats.count for stats in admin.topic_stats("orders")) == 10
