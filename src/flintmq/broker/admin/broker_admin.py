"""The broker itself, as admins see and change it.

Settings change as a whole or not at all, and only those `config_file` marks as live: none of
them names a file or a command.  They last until the broker stops; broker.conf is not written.
The role is the exception, see `role_change`.
"""

from __future__ import annotations

from flintmq.broker.admin.role_change import ROLE_KEYS, change_role
from flintmq.broker.admin.runtime_info import runtime_table
from flintmq.broker.admin.topic_admin import between_turns
from flintmq.broker.config.config_file import (
    SETTINGS,
    BrokerSettings,
    changed_config,
    settings_texts,
)
from flintmq.broker.requests.outcome import Answer, Outcome, Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.bodies.java_properties import read_properties, write_properties
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import BrokerConfigAnswer, NoFields, ViewBrokerStats
from flintmq.protocol.typed_request import TypedRequest

log = logger(__name__)

KEY_CHARACTERS_SHOWN = 80
"""How much of a key that a peer sent its answer repeats."""


def show_settings(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_BROKER_CONFIG (26): every setting of this broker."""
    host, _, port = state.address.rpartition(":")
    settings = BrokerSettings(config=state.config, advertise=host, listen_port=int(port))
    version = state.config_version.to_body().decode()
    body = write_properties(settings_texts(settings))
    return Answer(header=BrokerConfigAnswer(version=version), body=body)


def change_settings(
    request: TypedRequest[NoFields], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """UPDATE_BROKER_CONFIG (25): change settings: all of them, or none and a reason."""
    texts = read_properties(request.body)
    if not ROLE_KEYS.isdisjoint(texts):
        return change_role(texts, state, peer)
    for key in texts:
        setting = SETTINGS.get(key)
        if setting is None or not setting.live:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"{key[:KEY_CHARACTERS_SHOWN]} cannot be changed while the broker runs; "
                "nothing was changed",
            )
    before = state.config
    try:
        state.config = changed_config(before, texts)
    except (InvalidSetting, ValueError) as error:
        remark = f"{error}; nothing was changed"
        raise Refusal(ResponseCode.INVALID_PARAMETER, remark) from None
    if state.config != before:
        log.info("%s: settings are changed: %s", peer.address, texts)
        state.config_version = state.config_version.next(now_ms)
        state.topics.configure(state.config, now_ms)
        state.groups.configure(state.config)
        if state.config.quotas != before.quotas:
            state.quotas.configure(state.config.quotas)
        state.names.configure(state.config.names_per_address_max)
    if state.config.permission != before.permission:
        state.topics.announce_all(now_ms)
    return Answer()


def runtime_figures(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """GET_BROKER_RUNTIME_INFO (28): the figures of this broker at run time."""
    return Answer(body=KvTable(table=runtime_table(state, now_ms)).to_body())


def counter_figures(
    request: TypedRequest[ViewBrokerStats], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """VIEW_BROKER_STATS_DATA (315): one counter over a minute, an hour and a day."""
    name, key = request.header.stats_name, request.header.stats_key
    found = state.stats.view(name, key, now_ms)
    if found is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
    return Answer(body=found.to_body())


def clean_queues(
    _request: TypedRequest[NoFields], _state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """CLEAN_EXPIRED_CONSUMEQUEUE (306): nothing to do: queues are cleaned with the log."""
    return Answer()


def clean_log(
    _request: TypedRequest[NoFields], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """DELETE_EXPIRED_COMMITLOG (329): delete expired files of the log, whatever the hour."""

    def clean() -> None:
        count = state.log.retain(now_ms, due=True)
        log.info("%s: %d expired files of the log were deleted", peer.address, count)

    return between_turns(state, clean)


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.GET_BROKER_CONFIG: show_settings,
    RequestCode.UPDATE_BROKER_CONFIG: change_settings,
    RequestCode.GET_BROKER_RUNTIME_INFO: runtime_figures,
    RequestCode.VIEW_BROKER_STATS_DATA: counter_figures,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: clean_queues,
    RequestCode.DELETE_EXPIRED_COMMITLOG: clean_log,
}
