"""Released RocketMQ and FlintMQ allow and refuse the same requests, but for the holes of RocketMQ.

Accounts, rules and signed requests come from a seed.  RocketMQ 4.9 judges ACL 1.0
(PlainAccessValidator and PlainPermissionManager); 5.5 judges ACL 2.0 (authentication and
authorization as the broker calls them), because it has the order of entries that 5.3.3 lacks.
Whatever ours allows, RocketMQ allows too.  What ours refuses and RocketMQ allows is listed here
by request code, with the reason.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flintmq.access.rules import Dialect
from flintmq.protocol.codes import RequestCode as Code
from support.interop.access_cases import NAMES, Case, cases
from support.interop.jvm import JAVA_SOURCES, compile_java, jars, start_java

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

REQUESTS = int(os.environ.get("FLINTMQ_ACCESS_REQUESTS", "10000"))
"""Of each of five seeds and two dialects: 100,000 in all."""
FIRST_SEED = int(os.environ.get("FLINTMQ_ACCESS_SEED", "0"))
"""The same in every run, unless ``make judge`` chooses one."""
JUDGE_TIMEOUT_S = 600
SHOWN = 10
SIGNED = frozenset(NAMES)
"""Of a case whose signature is right."""

JUDGES = {
    Dialect.PLAIN: ("PlainAclJudge", ["acl"], "4.9.8"),
    Dialect.AUTH: ("AuthJudge", ["tools"], "5.5.0"),
}


def ask(dialect: Dialect, lines: list[str], directory: Path) -> list[str]:
    name, artifacts, version = JUDGES[dialect]
    lib = jars(artifacts, version)
    classes = compile_java([JAVA_SOURCES / f"{name}.java"], lib)
    home = directory / "home"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "plain_acl.yml").write_text("accounts: []\n")
    props = {"rocketmq.home.dir": str(home)}
    with start_java(name, [], [lib, classes], props, reads_input=True) as process:
        try:
            out, err = process.communicate("\n".join([*lines, ""]), timeout=JUDGE_TIMEOUT_S)
        except BaseException:
            process.kill()
            raise
    assert process.returncode == 0, err
    return [line for line in out.split("\n") if line.startswith(("OK", "NO "))]


CHECKED_BY_4_9 = {
    *(Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.CONSUMER_SEND_MSG_BACK, Code.PULL_MESSAGE),
    *(Code.QUERY_MESSAGE, Code.UPDATE_CONSUMER_OFFSET, Code.HEART_BEAT, Code.UNREGISTER_CLIENT),
    *(Code.GET_CONSUMER_LIST_BY_GROUP, Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_BROKER_CONFIG),
    *(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.DELETE_SUBSCRIPTIONGROUP),
    Code.DELETE_TOPIC_IN_BROKER,
}
"""What 4.9 asks rights for.  For all else a good signature is enough there."""

UNCHECKED_BY_5 = {
    *(Code.BATCH_ACK_MESSAGE, Code.CHECK_CLIENT_CONFIG, Code.CLEAN_EXPIRED_CONSUMEQUEUE),
    *(Code.CLEAN_UNUSED_TOPIC, Code.DELETE_EXPIRED_COMMITLOG, Code.GET_ALL_CONSUMER_OFFSET),
    *(Code.GET_ALL_DELAY_OFFSET, Code.GET_ALL_MESSAGE_REQUEST_MODE, Code.GET_ALL_TOPIC_CONFIG),
    *(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO),
    *(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Code.GET_TIMER_CHECK_POINT, Code.GET_TIMER_METRICS),
    Code.GET_BROKER_HA_STATUS,
    *(Code.LITE_PULL_MESSAGE, Code.QUERY_ASSIGNMENT, Code.SEND_REPLY_MESSAGE),
    *(Code.SEND_REPLY_MESSAGE_V2, Code.SET_MESSAGE_REQUEST_MODE, Code.UPDATE_BROKER_CONFIG),
    *(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.UPDATE_AND_CREATE_TOPIC_LIST),
    # accounts of ACL 1.0, which it does not have
    *(Code.UPDATE_AND_CREATE_ACL_CONFIG, Code.DELETE_ACL_CONFIG),
    *(Code.GET_BROKER_CLUSTER_ACL_INFO, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG),
    Code.GET_BROKER_CLUSTER_ACL_CONFIG,
}
ACCOUNTS = {code for code in Code if code.name.startswith("AUTH_")}
NAME_SERVER = {
    *(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_BROKER_CLUSTER_INFO),
    *(Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
    *(Code.GET_NAMESRV_CONFIG, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, Code.GET_TOPICS_BY_CLUSTER),
    *(Code.GET_UNIT_TOPIC_LIST, Code.UPDATE_NAMESRV_CONFIG, Code.REGISTER_BROKER),
    *(Code.UNREGISTER_BROKER, Code.BROKER_HEARTBEAT, Code.QUERY_DATA_VERSION),
    *(Code.REGISTER_TOPIC_IN_NAMESRV, Code.DELETE_TOPIC_IN_NAMESRV),
    *(Code.GET_BROKER_MEMBER_GROUP, Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_KV_CONFIG),
    *(Code.PUT_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.GET_KVLIST_BY_NAMESPACE),
    *(Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER),
}

CLOSED: dict[Dialect, dict[str, set[Code]]] = {
    Dialect.PLAIN: {"4.9 asks for a signature alone": set(Code) - CHECKED_BY_4_9},
    Dialect.AUTH: {
        "5.x asks for a signature alone": UNCHECKED_BY_5,
        "who may update or get the cluster could become anybody": ACCOUNTS,
        "RocketMQ's name server checks nothing": NAME_SERVER,
        "the offsets of the source group were free to read": {Code.CLONE_GROUP_OFFSET},
        "a rule that denies consuming a topic denies its records": {Code.VIEW_MESSAGE_BY_ID},
    },
}
"""What ours refuses and RocketMQ allows."""

OPENED: dict[Dialect, dict[str, set[Code]]] = {
    Dialect.PLAIN: {},
    Dialect.AUTH: {
        "who may consume a topic may look at one of its records": {Code.VIEW_MESSAGE_BY_ID},
        "RocketMQ's name server checks nothing": NAME_SERVER,
    },
}
"""What ours allows and the classes of RocketMQ refuse."""

RETRY_TOPICS: dict[Dialect, set[Code]] = {
    Dialect.PLAIN: {Code.SEND_MESSAGE},
    Dialect.AUTH: {
        *(Code.PULL_MESSAGE, Code.QUERY_MESSAGE, Code.RECALL_MESSAGE, Code.HEART_BEAT),
        *(Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET, Code.LOCK_BATCH_MQ),
        *(Code.UNLOCK_BATCH_MQ, Code.VIEW_MESSAGE_BY_ID, Code.END_TRANSACTION),
    },
}
"""Requests in which RocketMQ passes over retry topics, or takes them for topics like others; a
retry topic stands for its group everywhere with us."""


def is_named(case: Case, dialect: Dialect) -> bool:
    """Whether a difference has a name here."""
    if case.names_retry_topic and case.code in RETRY_TOPICS[dialect]:
        return True
    named = OPENED if case.is_allowed else CLOSED
    return any(case.code in codes for codes in named[dialect].values())


@pytest.mark.parametrize("dialect", list(Dialect), ids=["ACL 1.0", "ACL 2.0"])
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 5))
def test_decisions_are_rocketmqs(dialect: Dialect, seed: int, tmp_path: Path) -> None:
    made, lines = cases(dialect, seed, REQUESTS)
    answers = ask(dialect, lines, tmp_path)
    assert len(answers) == len(made)

    found: list[str] = []
    for case, theirs in zip(made, answers, strict=True):
        if case.is_allowed == (theirs == "OK") or is_named(case, dialect):
            continue
        ours = "allowed" if case.ours is None else case.ours.remark
        found.append(f"{case.who}: {ours}, RocketMQ {theirs}: {case.described}")

    again = f"FLINTMQ_ACCESS_SEED={seed} repeats it"
    assert found[:SHOWN] == [], f"{len(found)} in all; {again}"
    allowed = sum(case.is_allowed for case in made)
    assert len(made) / 5 < allowed < len(made) * 4 / 5, "too few of a kind to compare"
    signed = [case for case in made if case.who in SIGNED]
    assert len(signed) > len(made) / 2
