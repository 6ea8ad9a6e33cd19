"""A request passes for a user with a valid signature and the rights, and for nobody else."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from flintmq.access.auth_accounts import change_policies
from flintmq.access.auth_accounts import create_user as create
from flintmq.access.control import AccessControl, AccessRefusal, Signed
from flintmq.access.plain_file import read_plain_file, rules_of_files
from flintmq.access.rights import Context
from flintmq.access.rules import Dialect, RuleSet, User
from flintmq.protocol.bodies.account_bodies import AclBody, EntryBody, PolicyBody, UserBody
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.command import request as command
from flintmq.protocol.headers.common_headers import NoFields
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.signature import sign
from flintmq.protocol.typed_request import TypedRequest

HERE = ip_address("127.0.0.1")
PLAIN = """
globalWhiteRemoteAddresses: [10.10.103.*]
accounts:
  - {accessKey: RocketMQ, secretKey: 12345678, admin: false, defaultTopicPerm: DENY,
     defaultGroupPerm: SUB, topicPerms: [orders=PUB, both=PUB|SUB, never=DENY]}
  - {accessKey: rocketmq2, secretKey: 0123456789, admin: true}
  - {accessKey: unsigned1, secretKey: 12345678, whiteRemoteAddress: 192.168.1.*}
"""


def a_send(topic: str, code: int = RequestCode.SEND_MESSAGE_V2) -> Command:
    header = SendMessageV2(
        producer_group="p", topic=topic, queue_id=0, sys_flag=0, born_timestamp=1, flag=0
    )
    return command(code, header, b"hello")


def plain() -> AccessControl:
    rules = rules_of_files([read_plain_file(PLAIN)])
    return AccessControl(Dialect.PLAIN, rules, Context("DefaultCluster"))


def auth() -> AccessControl:
    rules = create(RuleSet(), "alice", UserBody(password="alicepw1"), None)
    rules = create(rules, "root", UserBody(password="rootpw12", user_type="Super"), None)
    rules = create(rules, "gone", UserBody(password="gonepw12", user_status="disable"), None)
    entry = EntryBody(resource="Topic:orders", actions=("Pub",), decision="Allow")
    denied = EntryBody(resource="Topic:never", actions=("All",), decision="Deny")
    acl = AclBody(policies=(PolicyBody(policy_type="Custom", entries=(entry, denied)),))
    rules = change_policies(rules, "User:alice", acl)
    return AccessControl(Dialect.AUTH, rules, Context("DefaultCluster"))


def said(control: AccessControl, sent: Command, source: str = "127.0.0.1") -> str:
    """The user it is served for, or the refusal."""
    fields = sent.field_texts()
    is_send = sent.code == RequestCode.SEND_MESSAGE_V2
    header = sent.header(SendMessageV2) if is_send else NoFields()
    request = TypedRequest(header=header, code=sent.code, body=sent.body)
    passed = control.check(request, Signed(fields, sent.body, sent.version), ip_address(source))
    if isinstance(passed, AccessRefusal):
        return f"{int(passed.code)} {passed.remark}"
    return "anybody" if passed is None else passed.name


_PLAIN_TEXT = "1 org.apache.rocketmq.acl.common.AclException: "


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (a_send("orders"), _PLAIN_TEXT + "No accessKey is configured"),
        (
            sign(a_send("orders"), "nobody12", "12345678"),
            _PLAIN_TEXT + "No acl config for nobody12",
        ),
        (
            sign(a_send("orders"), "RocketMQ", "12345679"),
            _PLAIN_TEXT + "Check signature failed for accessKey=RocketMQ",
        ),
        (sign(a_send("orders"), "RocketMQ", "12345678"), "RocketMQ"),
        (
            sign(a_send("never"), "RocketMQ", "12345678"),
            _PLAIN_TEXT + "No default permission for topic:never",
        ),
        (
            sign(a_send("other"), "RocketMQ", "12345678"),
            _PLAIN_TEXT + "No default permission for topic:other",
        ),
        (sign(a_send("%RETRY%any"), "RocketMQ", "12345678"), "RocketMQ"),
        (sign(a_send("RMQ_SYS_TRACE_TOPIC"), "RocketMQ", "12345678"), "RocketMQ"),
        (sign(a_send("other"), "rocketmq2", "0123456789"), "rocketmq2"),
        (
            sign(command(RequestCode.UPDATE_BROKER_CONFIG), "RocketMQ", "12345678"),
            _PLAIN_TEXT
            + "Need admin permission for request code=25, but accessKey=RocketMQ is not",
        ),
        (
            sign(command(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG), "RocketMQ", "12345678"),
            _PLAIN_TEXT
            + "Need admin permission for request code=50, but accessKey=RocketMQ is not",
        ),
    ],
)
def test_acl_1_refuses_with_the_texts_of_rocketmq_4(sent: Command, expected: str) -> None:
    assert said(plain(), sent) == expected


def test_acl_1_trusts_white_addresses() -> None:
    control = plain()

    assert said(control, a_send("never"), "10.10.103.9") == "anybody"
    unsigned = sign(a_send("never"), "unsigned1", "wrong secret")
    assert said(control, unsigned, "192.168.1.77") == "unsigned1"
    assert said(control, unsigned, "192.168.2.77").startswith("1 ")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (a_send("orders"), "16 username cannot be null."),
        (sign(a_send("orders"), "", "x"), "16 username cannot be null."),
        (sign(a_send("orders"), "nobody", "x"), "16 User:nobody is not found."),
        (sign(a_send("orders"), "gone", "gonepw12"), "16 User:gone is disabled."),
        (sign(a_send("orders"), "alice", "wrong"), "16 check signature failed."),
        (sign(a_send("orders"), "alice", "alicepw1"), "alice"),
        (
            sign(a_send("other"), "alice", "alicepw1"),
            (
                "16 User:alice has no permission to access Topic:other from 127.0.0.1, "
                "no matched policies."
            ),
        ),
        (
            sign(a_send("never"), "alice", "alicepw1"),
            (
                "16 User:alice has no permission to access Topic:never from 127.0.0.1, "
                "the decision is deny."
            ),
        ),
        (sign(a_send("other"), "root", "rootpw12"), "root"),
        (
            sign(command(RequestCode.AUTH_LIST_USER), "alice", "alicepw1"),
            "16 User:alice is not a super user, which request code 3005 needs.",
        ),
    ],
)
def test_acl_2_refuses_with_the_texts_of_rocketmq_5(sent: Command, expected: str) -> None:
    assert said(auth(), sent) == expected


def test_a_change_of_the_rules_counts_from_the_next_request_on() -> None:
    control = auth()
    sent = sign(a_send("orders"), "alice", "alicepw1")
    assert said(control, sent) == "alice"

    control.replace_rules(RuleSet({"alice": User("alice", "alicepw1")}))

    assert said(control, sent).startswith(f"{int(ResponseCode.NO_PERMISSION)} User:alice has no")
