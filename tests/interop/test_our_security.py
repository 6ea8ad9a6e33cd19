"""Our clients prove who they are to real brokers, and speak TLS with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq import LitePullConsumer, Message, Producer, PullConsumer, PushConsumer, QueueRef
from flintmq.client.admin import Admin
from flintmq.errors import BrokerRefused, SendFailed, Unreachable
from flintmq.model.group import ConsumeFromWhere
from flintmq.net.tls import ClientTls
from support.client.push_support import Ear
from support.client.support import nothing_left
from support.interop.filled import BROKER, SEND_MS, numbered, patiently
from support.interop.ours import DELAY_LEVELS
from support.interop.real import RealRocketMQ, ServerTls
from support.net.certificates import Authority

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(600),  # the first run fetches the jars
]

OLD, NEW = "4.9.7", "5.3.3"
CALL_MS = 15_000

KEYS: dict[str, Any] = {"access_key": "shopkeeper", "secret_key": "sesame-opens"}
ADMIN_KEYS: dict[str, Any] = {"access_key": "headmaster", "secret_key": "chalk-and-board"}
WRONG_KEYS: dict[str, Any] = {"access_key": "shopkeeper", "secret_key": "sesame-closes"}

ACCOUNTS = """
globalWhiteRemoteAddresses: []
accounts:
  - accessKey: shopkeeper
    secretKey: sesame-opens
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms: [orders=PUB|SUB]
    groupPerms: [billing=SUB]
  - accessKey: headmaster
    secretKey: chalk-and-board
    whiteRemoteAddress:
    admin: true
"""

# 5.3 has other rules and takes the old file over into them at its first start.
_AUTH = "org.apache.rocketmq.auth"
NEW_RULES: dict[str, Any] = {
    "authenticationEnabled": True,
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationEnabled": True,
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
    "innerClientAuthenticationCredentials": json.dumps(
        {"accessKey": "headmaster", "secretKey": "chalk-and-board"}
    ),
    "migrateAuthFromV1Enabled": True,
}
RULES: dict[str, dict[str, Any]] = {OLD: {"aclEnable": True}, NEW: NEW_RULES}


@pytest.fixture(scope="module", params=[OLD, NEW])
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealRocketMQ]:
    """A broker that knows two accounts, and a topic of each kind on it."""
    version: str = request.param
    servers = RealRocketMQ(
        version,
        tmp_path_factory.mktemp("guarded"),
        messageDelayLevel=" ".join(DELAY_LEVELS),
        **RULES[version],
    )
    conf = servers.home / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    with servers:
        with Admin(namesrv=servers.namesrv, **ADMIN_KEYS) as admin:
            for topic in ("orders", "wages"):
                admin.create_topic(topic, queues=2)
        yield servers


def send(servers: RealRocketMQ, topic: str, keys: dict[str, Any]) -> None:
    with Producer("shop", namesrv=servers.namesrv, **keys) as producer:
        producer.send(Message(topic, b"x"), timeout_ms=SEND_MS)


def test_signed_requests_of_every_kind_are_let_in(guarded: RealRocketMQ) -> None:
    common: dict[str, Any] = {"namesrv": guarded.namesrv, "call_timeout_ms": CALL_MS, **KEYS}
    ear = Ear(ValueError("once more"))
    with nothing_left(), Producer("shop", **common) as producer:
        producer.send(Message("orders", b"0000", tags="ü", keys=["k"]), timeout_ms=SEND_MS)
        producer.send_batch(
            [Message("orders", b"0001"), Message("orders", b"0002")], timeout_ms=SEND_MS
        )
        producer.send_async(Message("orders", b"0003"), timeout_ms=SEND_MS).result()
        producer.send(Message("orders", b"0004" * 2_000), timeout_ms=SEND_MS)
        with PushConsumer("billing", ear, start_from="first", **common).subscribe("orders"):
            patiently(lambda: len(ear.messages) >= 6)
        with PullConsumer("billing", **common) as consumer:
            stands_at = sum(
                consumer.committed(QueueRef("orders", BROKER, number), from_store=True) or 0
                for number in range(2)
            )
        with LitePullConsumer(
            "billing", start_from=ConsumeFromWhere.FIRST_OFFSET, **common
        ) as lite:
            lite.subscribe("orders")
            producer.send(Message("orders", b"last"), timeout_ms=SEND_MS)
            patiently(lambda: [message.body for message in lite.poll(200)] == [b"last"])

    assert sorted(body[:4] for body in set(ear.bodies)) == numbered(5)
    assert stands_at == 5


def test_wrong_and_missing_keys_are_refused(guarded: RealRocketMQ) -> None:
    words = "Check signature failed" if guarded.version == OLD else "check signature failed"
    with pytest.raises((BrokerRefused, SendFailed), match=words):
        send(guarded, "orders", WRONG_KEYS)
    with pytest.raises((BrokerRefused, SendFailed)):
        send(guarded, "orders", {})
    with Admin(namesrv=guarded.namesrv, **WRONG_KEYS) as admin, pytest.raises(BrokerRefused):
        admin.create_topic("mine")
    with Admin(namesrv=guarded.namesrv, **ADMIN_KEYS) as admin:
        assert "mine" not in {topic.name for topic in admin.topics()}


def test_a_right_key_opens_only_its_own_doors(guarded: RealRocketMQ) -> None:
    common: dict[str, Any] = {"namesrv": guarded.namesrv, "call_timeout_ms": CALL_MS, **KEYS}
    with pytest.raises((BrokerRefused, SendFailed), match="ermission"):
        send(guarded, "wages", KEYS)
    with PullConsumer("billing", **common) as consumer, pytest.raises(BrokerRefused):
        consumer.pull(QueueRef("wages", BROKER, 0), 0)
    for group, topic in (("payroll", "orders"), ("billing", "wages")):
        with nothing_left(), pytest.raises(BrokerRefused, match=f"{topic}.*{group}") as refused:
            PushConsumer(group, Ear(), **common).subscribe(topic).start()
        assert repr(KEYS["access_key"]) in str(refused.value)
    with nothing_left(), pytest.raises(BrokerRefused, match="set access_key"):
        PushConsumer("billing", Ear(), namesrv=guarded.namesrv).subscribe("orders").start()
    wrong = {**common, **WRONG_KEYS}
    with nothing_left(), pytest.raises(BrokerRefused, match="secret_key is right"):
        PushConsumer("billing", Ear(), **wrong).subscribe("orders").start()
    with Admin(**common) as admin, pytest.raises(BrokerRefused):
        admin.create_topic("mine")


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
