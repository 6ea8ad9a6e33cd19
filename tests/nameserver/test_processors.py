"""Every request is answered: with what was asked for, or with a code and the reason."""

from __future__ import annotations

import logging

import msgspec
import pytest

from flintmq.nameserver.config import NameServerConfig, read_config
from flintmq.nameserver.processors import PROCESSORS, NamesrvAnswer, not_served
from flintmq.nameserver.settings import Settings
from flintmq.nameserver.state import NameServerState
from flintmq.net.address import Address
from flintmq.net.channels.channel_pool import connect
from flintmq.net.loop import run
from flintmq.protocol.bodies.body import RequestBody
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.bodies.register import BrokerRegistration
from flintmq.protocol.bodies.route import MemberGroup, QueueEntry, TopicRoute
from flintmq.protocol.bodies.topic import TopicConfig, TopicList
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.fields import Header, write_fields
from flintmq.protocol.headers import route as headers
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.headers.common_headers import NoFields, OfTopic, PutSetting
from flintmq.protocol.headers.topic import ForgetTopic, TopicsOfCluster
from flintmq.protocol.typed_request import TypedRequest
from flintmq.protocol.version import REGISTER_BODY_SINCE
from support.nameserver.servers import (
    ask,
    name_server,
    register_request,
    registration,
    route_of,
    topic_table,
)
from support.net.support import CALL_MS
from support.protocol.registrations import compressed_form
from test_logs import hidden

ADDRESS = "10.0.0.1:10911"
NOTHING = NoFields()


def state_with(config: NameServerConfig | None = None, *topics: str) -> NameServerState:
    state = NameServerState(config or NameServerConfig(), Settings(), 0, Address("127.0.0.1", 9876))
    if topics:
        state.routes.register(registration(table=topic_table(topics)), "p", 0)
    return state


def process(
    state: NameServerState,
    code: RequestCode,
    header: Header = NOTHING,
    body: bytes = b"",
    *,
    version: int = 479,
    now_ms: int = 0,
) -> NamesrvAnswer:
    asked = TypedRequest(header=header, code=code, version=version, body=body)
    answer = PROCESSORS[code](asked, state, "p", now_ms)
    assert isinstance(answer, NamesrvAnswer)
    return answer


REGISTER = headers.RegisterBroker(
    broker_name="broker-a",
    broker_addr=ADDRESS,
    cluster_name="c",
    broker_id=0,
    ha_server_addr="ha",
)


def told(state: NameServerState, code: RequestCode, peer: str, address: str = ADDRESS) -> int:
    """What a peer is answered that registers broker-a, or says that it leaves."""
    header = msgspec.structs.replace(REGISTER, broker_addr=address)
    body = register_body().to_body() if code == RequestCode.REGISTER_BROKER else b""
    asked = TypedRequest(header=header, code=code, version=479, body=body)
    answer = PROCESSORS[code](asked, state, peer, 0)
    assert isinstance(answer, NamesrvAnswer)
    return answer.code


def test_nobody_but_the_broker_itself_speaks_for_a_name_that_is_reserved() -> None:
    state = state_with()
    assert told(state, RequestCode.REGISTER_BROKER, "own") == ResponseCode.SUCCESS
    state.reserve("broker-a", ADDRESS)
    before = state.route_body("orders", bare_keys=False)

    for code in (RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER):
        for address in (ADDRESS, "10.6.6.6:10911"):
            assert told(state, code, "stranger", address) == ResponseCode.SYSTEM_ERROR
    assert state.route_body("orders", bare_keys=False) == before

    assert told(state, RequestCode.REGISTER_BROKER, "own") == ResponseCode.SUCCESS
    assert told(state, RequestCode.UNREGISTER_BROKER, "own") == ResponseCode.SUCCESS
    assert state.route_body("orders", bare_keys=False) is None


def test_a_broker_whose_name_is_reserved_comes_back_over_another_connection() -> None:
    state = state_with()
    assert told(state, RequestCode.REGISTER_BROKER, "own") == ResponseCode.SUCCESS
    state.reserve("broker-a", ADDRESS)
    state.routes.connection_lost("own")

    assert told(state, RequestCode.REGISTER_BROKER, "stranger", "10.6.6.6:10911") != 0
    assert told(state, RequestCode.REGISTER_BROKER, "own again") == ResponseCode.SUCCESS


def register_body() -> BrokerRegistration:
    return BrokerRegistration(topic_config_serialize_wrapper=topic_table(["orders", "bills"]))


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("version", [407, 479], ids=["4.9", "5.3"])
def test_a_broker_registers_in_both_forms(compressed: bool, version: int) -> None:
    state = state_with()
    told = register_body()
    body = compressed_form(told, version) if compressed else told.to_body()
    header = msgspec.structs.replace(REGISTER, compressed=compressed)

    done = process(state, RequestCode.REGISTER_BROKER, header, body, version=version)

    assert done.code == 0
    assert state.routes.topics() == ("orders", "bills")


def test_a_compressed_registration_is_known_without_being_told() -> None:
    state = state_with()
    body = compressed_form(register_body(), 479)

    done = process(state, RequestCode.REGISTER_BROKER, REGISTER, body)

    assert done.code == 0
    assert state.routes.topics() == ("orders", "bills")


def test_a_broker_of_old_registers_with_bare_topics() -> None:
    state = state_with()
    body = topic_table(["orders", "bills"]).to_body()
    version = REGISTER_BODY_SINCE - 1

    done = process(state, RequestCode.REGISTER_BROKER, REGISTER, body, version=version)

    assert done.code == 0
    assert state.routes.topics() == ("orders", "bills")


def test_a_broker_without_topics_registers_without_a_body() -> None:
    state = state_with()

    done = process(state, RequestCode.REGISTER_BROKER, REGISTER)

    assert done.code == 0
    assert state.routes.members("c", "broker-a").broker_addrs == {0: ADDRESS}


def test_a_body_whose_checksum_differs_is_refused() -> None:
    state = state_with()
    header = msgspec.structs.replace(REGISTER, body_crc32=1)

    done = process(state, RequestCode.REGISTER_BROKER, header, register_body().to_body())

    assert (done.code, done.remark) == (1, "crc32 not match")
    assert state.routes.topics() == ()


def test_a_registration_that_is_refused_says_so() -> None:
    body = BrokerRegistration(topic_config_serialize_wrapper=topic_table(["orders"])).to_body()

    done = process(state_with(), RequestCode.REGISTER_BROKER, REGISTER, body)

    assert (done.code, done.remark) == (1, "register broker failed")


@pytest.mark.parametrize(("own_ms", "limit_ms"), [(None, 120_000), (1_000, 1_000)])
def test_a_broker_says_itself_how_long_it_may_be_silent(own_ms: int | None, limit_ms: int) -> None:
    state = state_with()
    header = msgspec.structs.replace(REGISTER, heartbeat_timeout_millis=own_ms)
    process(state, RequestCode.REGISTER_BROKER, header)

    assert state.routes.expire(limit_ms) == []
    assert state.routes.expire(limit_ms + 1) == ["p"]


def test_brokers_are_told_the_queues_of_ordered_topics() -> None:
    config = NameServerConfig(return_order_topic_config_to_broker=False)
    told, kept = state_with(), state_with(config)
    put = PutSetting(namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:4")
    for state in (told, kept):
        process(state, RequestCode.PUT_KV_CONFIG, put)

    answers = [process(state, RequestCode.REGISTER_BROKER, REGISTER) for state in (told, kept)]

    assert KvTable.from_body(answers[0].body).table == {"orders": "broker-a:4"}
    assert answers[1].body == b""


@pytest.mark.parametrize(("enabled", "order"), [(True, "broker-a:4"), (False, None)])
def test_clients_are_told_them_where_it_is_enabled(enabled: bool, order: str | None) -> None:
    state = state_with(NameServerConfig(order_message_enable=enabled), "orders", "bills")
    state.settings.put("ORDER_TOPIC_CONFIG", "orders", "broker-a:4")

    done = process(state, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.RouteOf(topic="orders"))

    assert TopicRoute.from_body(done.body).order_topic_conf == order


@pytest.mark.parametrize(
    ("version", "standard", "key"),
    [(400, None, b"{0:"), (400, False, b"{0:"), (400, True, b'{"0":'), (401, None, b'{"0":')],
)
def test_keys_of_a_route_are_quoted_from_4_9_4_on_or_when_asked_for(
    version: int, standard: bool | None, key: bytes
) -> None:
    state = state_with(None, "orders", "bills")
    header = headers.RouteOf(topic="orders", accept_standard_json_only=standard)

    done = process(state, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, version=version)

    assert b'"brokerAddrs":' + key in done.body


def test_keys_of_a_cluster_and_its_members_are_always_bare() -> None:
    state = state_with(None, "orders", "bills")
    header = headers.BrokerMembersHeader(cluster_name="c", broker_name="broker-a")

    cluster = process(state, RequestCode.GET_BROKER_CLUSTER_INFO)
    members = process(state, RequestCode.GET_BROKER_MEMBER_GROUP, header)

    assert b'{0:"10.0.0.1:10911"}' in cluster.body
    assert members.body == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.1:10911"},'
        b'"brokerName":"broker-a","cluster":"c"}}'
    )


def test_a_broker_nobody_knows_has_no_members() -> None:
    header = headers.BrokerMembersHeader(cluster_name="c", broker_name="x")

    done = process(state_with(), RequestCode.GET_BROKER_MEMBER_GROUP, header)

    group = MemberGroup.from_body(done.body).broker_member_group
    assert group is not None
    assert group.broker_addrs == {}


def test_no_route_is_told_before_brokers_had_time_to_register() -> None:
    config = NameServerConfig(need_wait_for_service=True, wait_for_service_ms=1_000)
    state = state_with(config, "orders", "bills")
    header = headers.RouteOf(topic="orders")

    early = process(state, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, now_ms=999)
    later = process(state, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, now_ms=1_000)

    assert (early.code, early.remark) == (1, "name server not ready")
    assert later.code == 0


@pytest.mark.parametrize("code", [RequestCode.QUERY_DATA_VERSION, RequestCode.BROKER_HEARTBEAT])
def test_a_broker_that_only_says_it_lives_does(code: RequestCode) -> None:
    state = state_with(None, "orders", "bills")
    header: Header
    if code is RequestCode.QUERY_DATA_VERSION:
        header = headers.BrokerIdentity(
            broker_name="broker-a", broker_addr=ADDRESS, cluster_name="c", broker_id=0
        )
    else:
        header = headers.BrokerHeartbeat(
            broker_name="broker-a", broker_addr=ADDRESS, cluster_name="c"
        )

    done = process(state, code, header, topic_table().data_version.to_body(), now_ms=100_000)

    assert done.code == 0
    assert state.routes.expire(220_000) == []
    assert state.routes.expire(220_001) == ["p"]


@pytest.mark.parametrize(("version", "changed"), [(1, False), (2, True)])
def test_a_broker_learns_whether_it_has_to_register(version: int, changed: bool) -> None:
    state = state_with(None, "orders", "bills")
    header = headers.BrokerIdentity(
        broker_name="broker-a", broker_addr=ADDRESS, cluster_name="c", broker_id=0
    )
    given = topic_table(version=version).data_version

    done = process(state, RequestCode.QUERY_DATA_VERSION, header, given.to_body())

    assert done.header == headers.DataVersionAnswer(changed=changed)
    assert done.body == topic_table().data_version.to_body()


def test_a_topic_can_be_made_known_and_forgotten_by_hand() -> None:
    state = state_with(None, "orders", "bills")
    body = TopicRoute(queue_datas=(QueueEntry(broker_name="broker-a"),)).to_body()

    process(state, RequestCode.REGISTER_TOPIC_IN_NAMESRV, OfTopic(topic="new"), body)
    process(state, RequestCode.DELETE_TOPIC_IN_NAMESRV, ForgetTopic(topic="orders"))
    in_cluster = ForgetTopic(topic="bills", cluster_name="c")
    process(state, RequestCode.DELETE_TOPIC_IN_NAMESRV, in_cluster)

    assert state.routes.topics() == ("new",)


def test_topic_lists_can_be_switched_off() -> None:
    state = state_with(NameServerConfig(enable_all_topic_list=False, enable_topic_list=False))

    answers = [
        process(state, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
        process(state, RequestCode.GET_TOPICS_BY_CLUSTER, TopicsOfCluster(cluster="c")),
        process(state, RequestCode.GET_UNIT_TOPIC_LIST),
        process(state, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST),
        process(state, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
    ]

    assert {(one.code, one.remark) for one in answers} == {(ResponseCode.SYSTEM_ERROR, "disable")}


def test_each_topic_list_has_its_topics() -> None:
    state = state_with()
    table = topic_table(
        [
            TopicConfig(topic_name="unit", topic_sys_flag=1),
            TopicConfig(topic_name="both", topic_sys_flag=3),
            TopicConfig(topic_name="sub", topic_sys_flag=2),
        ]
    )
    state.routes.register(registration(table=table), "p", 0)
    everywhere = TopicsOfCluster(cluster="x")

    def topics(code: RequestCode, header: Header = NOTHING) -> tuple[str, ...]:
        return TopicList.from_body(process(state, code, header).body).topic_list

    assert topics(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ("unit", "both", "sub")
    assert topics(RequestCode.GET_UNIT_TOPIC_LIST) == ("unit", "both")
    assert topics(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ("both", "sub")
    assert topics(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ("sub",)
    unknown = process(state, RequestCode.GET_TOPICS_BY_CLUSTER, everywhere)
    assert unknown.body == b'{"topicList":[]}'
    system = process(state, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    assert system.body == b'{"brokerAddr":"10.0.0.1:10911","topicList":["c","broker-a"]}'


def test_an_allowed_setting_changes_at_once_and_is_shown() -> None:
    state = state_with()

    done = process(state, RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
    shown = process(state, RequestCode.GET_NAMESRV_CONFIG)

    assert done.code == 0
    assert state.config.order_message_enable
    assert read_config(shown.body) == (state.config, [])


@pytest.mark.parametrize(
    ("body", "code", "remark"),
    [
        (b"kvConfigPath=/etc/passwd", 16, "Can not update config in black list."),
        (b"listenPort=1", 29, "listenPort '1': it cannot be changed while running"),
        (b"anything=1", 29, "anything '1': it cannot be changed while running"),
        (b"enableTopicList=maybe", 29, "enableTopicList 'maybe': it must be true or false"),
    ],
)
def test_any_other_setting_is_refused_and_nothing_changes(
    body: bytes, code: int, remark: str
) -> None:
    state = state_with()

    done = process(
        state, RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n" + body
    )

    assert (done.code, done.remark) == (code, remark)
    assert state.config == NameServerConfig()


def test_every_code_has_its_header_in_the_catalogue() -> None:
    assert PROCESSORS.keys() <= REQUEST_HEADERS.keys()


HUGE = "x" * 30_000  # a dozen of them fit a header
WRONG = ("", "not a number", "-1", "99999999999999999999", "null", "true", HUGE)
BODIES = (
    b"",
    b"{}",
    b"null",
    b"[" * 1_000,
    b'{"topicConfigSerializeWrapper":7}',
    b"\x78\x9c broken",
    b"=\\u12",
    b"\xff" * 100,
    b"{a:" * (RequestBody.rewrite_bytes_max // 3 + 1),
)
CODES = sorted({*map(int, RequestCode), -1, 0, 9_999, 2**31 - 1})


def field_names(code: int) -> list[str]:
    if code not in REQUEST_HEADERS:
        return ["topic"]
    return list(REQUEST_HEADERS[RequestCode(code)].__struct_encode_fields__)


def test_no_request_ends_a_connection_or_goes_unanswered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every code there is, with missing, wrong and huge fields and bodies, on one connection."""
    caplog.set_level(logging.INFO)
    served = {int(code) for code in PROCESSORS}

    async def main() -> None:
        async with name_server() as server:
            channel = await connect(str(server.address))
            for code in CODES:
                names = field_names(code)
                fields = [{}, *(dict.fromkeys(names, value) for value in WRONG)]
                asked = [
                    msgspec.structs.replace(request(code, body=body), fields=write_fields(one))
                    for one in fields
                    for body in (BODIES if code in served else BODIES[:1])
                ]
                for one in asked:
                    reply = await channel.call(one, CALL_MS)
                    assert (reply.code == 3) == (code not in served)
                    if code not in served:
                        assert reply.remark == f" request type {code} not supported"
                    assert reply.code == 0 or reply.remark
                    assert len(reply.remark or "") < 1_000
            done = await channel.call(register_request(registration()), CALL_MS)
            assert done.code == 0
            assert await route_of(channel, "orders") is not None
            await channel.close()

    run(main())

    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_nothing_a_peer_sends_is_hidden_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "flintmq")
    nasty = "x\n2026-01-01 INFO forged\r\x1b[2J\x00\x9b31m\u202e"
    numbers = {"brokerId": "0", "bodyCrc32": "0", "compressed": "false"}

    async def main() -> None:
        async with name_server() as server:
            channel = await connect(str(server.address))
            for code in CODES:
                all_nasty = dict.fromkeys(field_names(code), nasty)
                for fields in (all_nasty, {**all_nasty, **numbers}):
                    one = request(code)
                    for body in (b"", nasty.encode(), f"{nasty}={nasty}".encode()):
                        asked = msgspec.structs.replace(one, fields=write_fields(fields), body=body)
                        await channel.call(asked, CALL_MS)
            strange = registration(broker=nasty, cluster=nasty)
            await channel.call(register_request(strange), CALL_MS)
            await channel.close()

    run(main())

    lines = [logging.Formatter().format(record) for record in caplog.records]
    assert lines
    assert [line for line in lines if hidden(line)] == []


def test_a_missing_field_is_named() -> None:
    async def main() -> str | None:
        async with name_server() as server:
            channel = await connect(str(server.address))
            reply = await ask(channel, RequestCode.GET_ROUTEINFO_BY_TOPIC)
            await channel.close()
            assert reply.code == 1
            return reply.remark

    assert run(main()) == "MalformedHeader: header field topic: is missing"


def test_a_code_nobody_serves_is_refused_in_rocketmqs_words() -> None:
    assert not_served(10) == NamesrvAnswer(
        code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=" request type 10 not supported"
    )
