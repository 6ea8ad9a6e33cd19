"""Every request a name server serves: a plain function from the request to its answer.

A processor may read and change the state.  It touches no socket, thread or clock;
`server` does that on its behalf.  What a peer got wrong is raised as a `FlintError`
and answered with code 1; codes that are not in the table are answered with 3.  Remarks are
RocketMQ's own where it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from flintmq.errors import InvalidSetting, MalformedBody
from flintmq.model.topic import TopicFlag
from flintmq.nameserver.config import NEVER_OVER_THE_WIRE, changed_config, config_text
from flintmq.nameserver.replicas import Peer, Registration
from flintmq.nameserver.state import NameServerState
from flintmq.protocol.bodies.body import Body, RequestBody
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.java_properties import read_properties
from flintmq.protocol.bodies.register import BrokerRegistration, body_crc32
from flintmq.protocol.bodies.route import MemberGroup, TopicRoute
from flintmq.protocol.bodies.topic import TopicList, TopicTable
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.common_headers import (
    NoFields,
    OfTopic,
    PutSetting,
    SettingAnswer,
    SettingOf,
    SettingsOf,
)
from flintmq.protocol.headers.route import (
    AddWritePermAnswer,
    BrokerHeartbeat,
    BrokerIdentity,
    BrokerMembersHeader,
    DataVersionAnswer,
    RegisterAnswer,
    RegisterBroker,
    RouteOf,
    WipeWritePermAnswer,
    WritePermOf,
)
from flintmq.protocol.headers.topic import ForgetTopic, TopicsOfCluster
from flintmq.protocol.typed_request import TypedRequest
from flintmq.protocol.version import REGISTER_BODY_SINCE, STANDARD_JSON_SINCE

ZLIB_BYTE = b"\x78"
"""The first byte of a compressed registration, and of no JSON."""

QUOTED_CHARACTERS_MAX = 255
"""How much of a peer's text comes back to it in a remark."""

B = TypeVar("B", bound=Body)


@dataclass(frozen=True, slots=True)
class NamesrvAnswer:
    """What a processor decided."""

    code: ResponseCode = ResponseCode.SUCCESS
    header: Header | None = None
    body: bytes = b""
    remark: str | None = None


InParts: TypeAlias = Generator[None, None, NamesrvAnswer]
"""An answer that takes long: each step takes a millisecond or two, the last one gives it."""

Processor: TypeAlias = Callable[
    [TypedRequest[Any], NameServerState, Peer, int], NamesrvAnswer | InParts
]

DONE = NamesrvAnswer()


def put_setting(
    request: TypedRequest[PutSetting], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """PUT_KV_CONFIG (100): store a value of a namespace."""
    header = request.header
    state.settings.put(header.namespace, header.key, header.value)
    return DONE


def show_setting(
    request: TypedRequest[SettingOf], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """GET_KV_CONFIG (101): one value of a namespace."""
    header = request.header
    value = state.settings.value(header.namespace, header.key)
    if value is None:
        where = f"Namespace: {_short(header.namespace)} Key: {_short(header.key)}"
        return _refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, {where}")
    return NamesrvAnswer(header=SettingAnswer(value=value))


def delete_setting(
    request: TypedRequest[SettingOf], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """DELETE_KV_CONFIG (102): delete a value of a namespace."""
    state.settings.delete(request.header.namespace, request.header.key)
    return DONE


def list_settings(
    request: TypedRequest[SettingsOf], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """GET_KVLIST_BY_NAMESPACE (219): all values of a namespace."""
    table = state.settings.namespace(request.header.namespace)
    if table is None:
        where = f"Namespace: {_short(request.header.namespace)}"
        return _refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, {where}")
    return NamesrvAnswer(body=table.to_body())


def register_broker(
    request: TypedRequest[RegisterBroker], state: NameServerState, peer: Peer, now_ms: int
) -> NamesrvAnswer | InParts:
    """REGISTER_BROKER (103): a broker registers its topics; many of them are read in parts."""
    registering = _registering(request, state, peer, now_ms)
    try:
        next(registering)
    except StopIteration as end:
        answer: NamesrvAnswer = end.value
        return answer
    return registering


def _registering(
    request: TypedRequest[RegisterBroker], state: NameServerState, peer: Peer, now_ms: int
) -> InParts:
    header, config = request.header, state.config
    if not state.may_speak_for(header.broker_name, header.broker_addr, peer):
        remark = "the name of this broker is another's: start it under a name of its own"
        return _refusal(ResponseCode.SYSTEM_ERROR, remark)
    if header.body_crc32 and header.body_crc32 != body_crc32(request.body):
        return _refusal(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    body = yield from _registration_body(request)
    timeout_ms = header.heartbeat_timeout_millis
    registration = Registration(
        cluster=header.cluster_name,
        broker=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        ha_address=header.ha_server_addr,
        table=body.topic_config_serialize_wrapper,
        filter_servers=body.filter_server_list,
        acting_master=header.enable_acting_master,
        zone=header.zone_name,
        timeout_ms=config.broker_timeout_ms if timeout_ms is None else timeout_ms,
    )
    delete_missing = config.delete_topic_with_broker_registration
    done = state.routes.register(registration, peer, now_ms, delete_missing=delete_missing)
    if done is None:
        return _refusal(ResponseCode.SYSTEM_ERROR, "register broker failed")
    orders = state.settings.order_table() if config.return_order_topic_config_to_broker else None
    return NamesrvAnswer(
        header=RegisterAnswer(ha_server_addr=done.ha_address, master_addr=done.master_address),
        body=b"" if orders is None else orders.to_body(),
    )


def unregister_broker(
    request: TypedRequest[BrokerIdentity], state: NameServerState, peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """UNREGISTER_BROKER (104): remove a broker from every route."""
    header = request.header
    if not state.may_speak_for(header.broker_name, header.broker_addr, peer):
        return _refusal(ResponseCode.SYSTEM_ERROR, "only the broker itself may say that it leaves")
    state.routes.unregister(header.cluster_name, header.broker_name, header.broker_addr)
    return DONE


def query_data_version(
    request: TypedRequest[BrokerIdentity], state: NameServerState, _peer: Peer, now_ms: int
) -> NamesrvAnswer:
    """QUERY_DATA_VERSION (322): whether a broker's table changed; also a sign of life."""
    place = request.header.cluster_name, request.header.broker_addr
    given = DataVersion.from_body(request.body)
    known = state.routes.known_version(*place)
    state.routes.refresh(*place, now_ms)
    return NamesrvAnswer(
        header=DataVersionAnswer(changed=known is None or not known.matches(given)),
        body=b"" if known is None else known.to_body(),
    )


def broker_heartbeat(
    request: TypedRequest[BrokerHeartbeat], state: NameServerState, _peer: Peer, now_ms: int
) -> NamesrvAnswer:
    """BROKER_HEARTBEAT (904): a broker is alive."""
    state.routes.refresh(request.header.cluster_name, request.header.broker_addr, now_ms)
    return DONE


def show_route(
    request: TypedRequest[RouteOf], state: NameServerState, _peer: Peer, now_ms: int
) -> NamesrvAnswer:
    """GET_ROUTEINFO_BY_TOPIC (105): the route of a topic.

    Versions before 4.9.4 read only bare keys, unless they say otherwise.
    """
    config, topic = state.config, request.header.topic
    ready_ms = state.started_ms + config.wait_for_service_ms
    if config.need_wait_for_service and now_ms < ready_ms:
        return _refusal(ResponseCode.SYSTEM_ERROR, "name server not ready")
    standard = request.version >= STANDARD_JSON_SINCE or request.header.accept_standard_json_only
    body = state.route_body(topic, bare_keys=not standard)
    if body is None:
        remark = f"No topic route info in name server for the topic: {_short(topic)}"
        return _refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    return NamesrvAnswer(body=body)


def show_cluster(
    _request: TypedRequest[NoFields], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """GET_BROKER_CLUSTER_INFO (106): every cluster and its brokers."""
    return NamesrvAnswer(body=state.routes.cluster().to_body())


def show_members(
    request: TypedRequest[BrokerMembersHeader], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """GET_BROKER_MEMBER_GROUP (901): the addresses of one broker name."""
    members = state.routes.members(request.header.cluster_name, request.header.broker_name)
    return NamesrvAnswer(body=MemberGroup(broker_member_group=members).to_body())


def wipe_write_permission(
    request: TypedRequest[WritePermOf], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """WIPE_WRITE_PERM_OF_BROKER (205): take write permission from every topic of a broker."""
    count = state.routes.wipe_write_permission(request.header.broker_name)
    return NamesrvAnswer(header=WipeWritePermAnswer(wipe_topic_count=count))


def add_write_permission(
    request: TypedRequest[WritePermOf], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """ADD_WRITE_PERM_OF_BROKER (327): give write permission back to every topic of a broker."""
    count = state.routes.add_write_permission(request.header.broker_name)
    return NamesrvAnswer(header=AddWritePermAnswer(add_topic_count=count))


def register_topic(
    request: TypedRequest[OfTopic], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """REGISTER_TOPIC_IN_NAMESRV (217): register the route of one topic.

    As in RocketMQ an unknown broker is no error, though nothing is done.
    """
    route = _read_short(TopicRoute, request.body)
    state.routes.register_topic(request.header.topic, route.queue_datas)
    return DONE


def delete_topic(
    request: TypedRequest[ForgetTopic], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """DELETE_TOPIC_IN_NAMESRV (216): remove a topic, from one cluster or from all."""
    state.routes.delete_topic(request.header.topic, request.header.cluster_name)
    return DONE


def list_topics(
    _request: TypedRequest[NoFields], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206): every topic."""
    return _topics(state.routes.topics(), state.config.enable_all_topic_list)


def list_topics_of_cluster(
    request: TypedRequest[TopicsOfCluster], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """GET_TOPICS_BY_CLUSTER (224): topics of a cluster; an unknown cluster has none."""
    topics = state.routes.topics_of_cluster(request.header.cluster)
    return _topics(topics, state.config.enable_topic_list)


def list_system_topics(
    _request: TypedRequest[NoFields], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """GET_SYSTEM_TOPIC_LIST_FROM_NS (304): clusters, brokers, and one to ask for the rest."""
    routes = state.routes
    topics = TopicList(broker_addr=routes.any_address(), topic_list=routes.system_topics())
    return NamesrvAnswer(body=topics.to_body())


def list_unit_topics(
    request: TypedRequest[NoFields], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """Topics by their flags: GET_UNIT_TOPIC_LIST (311), GET_HAS_UNIT_SUB_TOPIC_LIST (312) and
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST (313).
    """
    topics = state.routes.topics_flagged(*_UNIT_FLAGS[request.code])
    return _topics(topics, state.config.enable_topic_list)


def change_config(
    request: TypedRequest[NoFields], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """UPDATE_NAMESRV_CONFIG (318): change settings, all or none; RocketMQ skips unknown keys."""
    properties = read_properties(request.body)
    if properties.keys() & NEVER_OVER_THE_WIRE:
        return _refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    try:
        state.config = changed_config(state.config, properties)
    except InvalidSetting as error:
        return _refusal(ResponseCode.INVALID_PARAMETER, str(error))
    return DONE


def show_config(
    _request: TypedRequest[NoFields], state: NameServerState, _peer: Peer, _now_ms: int
) -> NamesrvAnswer:
    """GET_NAMESRV_CONFIG (319): every setting but paths."""
    return NamesrvAnswer(body=config_text(state.config, state.address))


_C = RequestCode

_UNIT_FLAGS = {
    int(_C.GET_UNIT_TOPIC_LIST): (TopicFlag.UNIT, TopicFlag(0)),
    int(_C.GET_HAS_UNIT_SUB_TOPIC_LIST): (TopicFlag.UNIT_SUBSCRIPTION, TopicFlag(0)),
    int(_C.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST): (TopicFlag.UNIT_SUBSCRIPTION, TopicFlag.UNIT),
}

PROCESSORS: Final[Mapping[RequestCode, Processor]] = MappingProxyType(
    {
        _C.PUT_KV_CONFIG: put_setting,
        _C.GET_KV_CONFIG: show_setting,
        _C.DELETE_KV_CONFIG: delete_setting,
        _C.GET_KVLIST_BY_NAMESPACE: list_settings,
        _C.REGISTER_BROKER: register_broker,
        _C.UNREGISTER_BROKER: unregister_broker,
        _C.QUERY_DATA_VERSION: query_data_version,
        _C.BROKER_HEARTBEAT: broker_heartbeat,
        _C.GET_ROUTEINFO_BY_TOPIC: show_route,
        _C.GET_BROKER_CLUSTER_INFO: show_cluster,
        _C.GET_BROKER_MEMBER_GROUP: show_members,
        _C.WIPE_WRITE_PERM_OF_BROKER: wipe_write_permission,
        _C.ADD_WRITE_PERM_OF_BROKER: add_write_permission,
        _C.REGISTER_TOPIC_IN_NAMESRV: register_topic,
        _C.DELETE_TOPIC_IN_NAMESRV: delete_topic,
        _C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: list_topics,
        _C.GET_TOPICS_BY_CLUSTER: list_topics_of_cluster,
        _C.GET_SYSTEM_TOPIC_LIST_FROM_NS: list_system_topics,
        **dict.fromkeys((_C(code) for code in _UNIT_FLAGS), list_unit_topics),
        _C.UPDATE_NAMESRV_CONFIG: change_config,
        _C.GET_NAMESRV_CONFIG: show_config,
    }
)


def not_served(code: int) -> NamesrvAnswer:
    """The answer to a code that is not in the table."""
    remark = f" request type {code} not supported"
    return _refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


def _refusal(code: ResponseCode, remark: str) -> NamesrvAnswer:
    return NamesrvAnswer(code=code, remark=remark)


def _topics(topics: tuple[str, ...], enabled: bool) -> NamesrvAnswer:
    if not enabled:
        return _refusal(ResponseCode.SYSTEM_ERROR, "disable")
    return NamesrvAnswer(body=TopicList(topic_list=topics).to_body())


def _registration_body(
    request: TypedRequest[RegisterBroker],
) -> Generator[None, None, BrokerRegistration]:
    """The body in any of its forms.  Without one, a broker that has no topics."""
    body = request.body
    if not body:
        return BrokerRegistration()
    if request.header.compressed or body.startswith(ZLIB_BYTE):  # 5.3.3 forgets to say so
        return (yield from BrokerRegistration.reading_compressed(body, request.version))
    if request.version < REGISTER_BODY_SINCE:
        return BrokerRegistration(topic_config_serialize_wrapper=_read_short(TopicTable, body))
    return (yield from BrokerRegistration.reading(body))


def _read_short(kind: type[B], body: bytes) -> B:
    """Read a body that may be in the slow dialect, on the event loop: it has to be short."""
    if len(body) > RequestBody.rewrite_bytes_max:
        raise MalformedBody(kind.__name__, f"{len(body)} bytes are too many")
    return kind.from_body(body)


def _short(text: str) -> str:
    return text if len(text) <= QUOTED_CHARACTERS_MAX else text[:QUOTED_CHARACTERS_MAX] + "…"
