"""Brokers with accounts, ours and real ones, of both dialects; the accounts are the same.

shopkeeper   may publish and consume ``orders`` as ``billing``, and as ``counting``
analyst      may get ``orders`` too, and has the group TOOLS_CONSUMER: Spark's source needs both;
             it has the group ``reports`` as well
packer       may consume ``parcels`` as ``packing``; tests take its rights away and give them back
headmaster   may do everything

Name servers are open, as RocketMQ's are: ours would refuse routes too.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from flintmq.client.admin import Admin
from support.cli.serving import ANYWHERE, running
from support.interop.account_programs import Account
from support.interop.door import Door
from support.interop.ours import DELAY_LEVELS
from support.interop.proxy import RecordingProxy
from support.interop.real import LOOPBACK, RealRocketMQ, free_port

BOSS = Account("headmaster", "chalk-and-board")
RIGHT = Account("shopkeeper", "sesame-opens")
WRONG = Account("shopkeeper", "sesame-closes")
STRANGER = Account("strangers", "whatever")
NOBODY = Account("-", "-")
ANALYST = Account("analyst-1", "reads-tables")
PACKER = Account("packer-1", "brings-parcels")

TOPICS = ("orders", "wages", "parcels")
PLAIN, AUTH = "plain", "auth"
REAL_VERSIONS = {PLAIN: "4.9.7", AUTH: "5.3.3"}

PLAIN_FILE = f"""
accounts:
  - {{accessKey: {RIGHT.name}, secretKey: {RIGHT.secret}, topicPerms: [orders=PUB|SUB],
     groupPerms: [billing=SUB, counting=SUB]}}
  - {{accessKey: {ANALYST.name}, secretKey: {ANALYST.secret}, topicPerms: [orders=PUB|SUB],
     groupPerms: [reports=SUB, TOOLS_CONSUMER=SUB]}}
  - {{accessKey: {PACKER.name}, secretKey: {PACKER.secret}, topicPerms: [parcels=SUB],
     groupPerms: [packing=SUB]}}
  - {{accessKey: {BOSS.name}, secretKey: {BOSS.secret}, admin: true}}
"""


def _user(account: Account, kind: str) -> dict[str, str]:
    return {"username": account.name, "password": account.secret, "userType": kind}


def _acl(account: Account, rights: dict[str, list[str]]) -> dict[str, Any]:
    entries = [
        {"resource": resource, "actions": actions, "decision": "Allow"}
        for resource, actions in rights.items()
    ]
    policy = {"policyType": "Custom", "entries": entries}
    return {"subject": f"User:{account.name}", "policies": [policy]}


AUTH_FILE = json.dumps(
    {
        "users": [
            *(_user(account, "Normal") for account in (RIGHT, ANALYST, PACKER)),
            _user(BOSS, "Super"),
        ],
        "acls": [
            _acl(
                RIGHT,
                {
                    "Topic:orders": ["Pub", "Sub"],
                    "Group:billing": ["Sub"],
                    "Group:counting": ["Sub"],
                },
            ),
            _acl(
                ANALYST,
                {
                    "Topic:orders": ["Pub", "Sub"],
                    "Group:reports": ["Sub"],
                    "Group:TOOLS_CONSUMER": ["Sub"],
                },
            ),
            _acl(PACKER, {"Topic:parcels": ["Sub"], "Group:packing": ["Sub"]}),
        ],
    }
)
_AUTH = "org.apache.rocketmq.auth"
REAL_SETTINGS: dict[str, dict[str, Any]] = {
    PLAIN: {"aclEnable": True},
    AUTH: {
        "authenticationEnabled": True,
        "authenticationMetadataProvider": (
            f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"
        ),
        "authorizationEnabled": True,
        "authorizationMetadataProvider": (
            f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider"
        ),
        "innerClientAuthenticationCredentials": json.dumps(
            {"accessKey": BOSS.name, "secretKey": BOSS.secret}
        ),
        "migrateAuthFromV1Enabled": True,  # 5.3 takes the file of ACL 1.0 over at its first start
    },
}


class Guarded(NamedTuple):
    """A broker with accounts, its name server, and the door that routes lead through."""

    whose: str
    acl: str
    namesrv: str
    broker: str
    door: Door
    accounts: Path

    def admin(self, account: Account = BOSS) -> Admin:
        return Admin(namesrv=self.namesrv, **account.keys)


@contextmanager
def ours(acl: str, directory: Path) -> Iterator[Guarded]:
    accounts = directory / "accounts"
    accounts.mkdir(parents=True)
    name, content = {
        PLAIN: ("plain_acl.yml", PLAIN_FILE),
        AUTH: ("accounts.json", AUTH_FILE),
    }[acl]
    (accounts / name).write_text(content)
    (accounts / name).chmod(0o600)
    config = directory / "broker.conf"
    config.write_text(f"messageDelayLevel={' '.join(DELAY_LEVELS)}\n")
    broker = f"{LOOPBACK}:{free_port()}"
    with (
        RecordingProxy(broker) as proxy,
        running("namesrv", "--listen", ANYWHERE) as namesrv,
        running(
            *("broker", "--listen", broker, "--namesrv", namesrv.namesrv, "--config", config),
            *("--data", directory / "store", "--advertise", proxy.address),
            *("--acl", acl, "--accounts", accounts),
        ),
    ):
        yield _with_topics(
            Guarded("ours", acl, namesrv.namesrv, broker, Door(proxy), accounts / name)
        )


@contextmanager
def theirs(acl: str, directory: Path) -> Iterator[Guarded]:
    """A real broker registers its own port; a proxy before the name server replaces it.

    Its door does that in messages: the C++ client sends them back to the host that stored them.
    """
    servers = RealRocketMQ(
        REAL_VERSIONS[acl],
        directory,
        messageDelayLevel=" ".join(DELAY_LEVELS),
        **REAL_SETTINGS[acl],
    )
    accounts = servers.home / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text(PLAIN_FILE)
    with ExitStack() as stack:

        def stored_at_door(frame: bytes) -> bytes:
            return frame.replace(_store_host(servers.broker), _store_host(proxy.address))

        proxy = RecordingProxy(servers.broker, rewrite_answers=stored_at_door)
        stack.enter_context(proxy)

        def lead_through_door(frame: bytes) -> bytes:
            return frame.replace(servers.broker.encode(), proxy.address.encode())

        registrations = RecordingProxy(servers.namesrv, rewrite=lead_through_door)
        stack.enter_context(registrations)
        servers.settings["namesrvAddr"] = registrations.address
        stack.enter_context(servers)
        yield _with_topics(
            Guarded("real", acl, servers.namesrv, servers.broker, Door(proxy), accounts)
        )


def _store_host(address: str) -> bytes:
    """An address as it stands in records."""
    host, _, port = address.rpartition(":")
    return socket.inet_aton(host) + struct.pack(">I", int(port))


def _with_topics(up: Guarded) -> Guarded:
    with up.admin() as admin:
        for topic in TOPICS:
            admin.create_topic(topic, queues=2)
        if up.acl == AUTH:  # ACL 1.0, from which a real broker takes them over, has no such right
            admin.change_policy(ANALYST.name, "Topic:orders", ["Pub", "Sub", "Get"])
    return up


def start(whose: str, acl: str, directory: Path) -> AbstractContextManager[Guarded]:
    """A context manager with the broker."""
    return (ours if whose == "ours" else theirs)(acl, directory)
