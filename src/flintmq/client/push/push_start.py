"""What is asked before a consumer joins its group.

    routes known? ──► SQL taken by the brokers? ──► same wishes as the group? ──► join ──► rights?

A name server that does not answer yet is waited for (`client.joining.name_server_wait`).

No request before the join introduces us to a broker, so a consumer that is refused leaves no
trace.  Whether an account has the rights it needs shows only after it: in the answers to
heartbeats and to the first questions that every consumer asks.

A topic without a route is no reason to refuse: `client.joining.missing_topics` asks the name
servers until one has it, and reports it meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.joining.name_server_wait import first_routes
from flintmq.client.push.push_settings import PushConfig
from flintmq.core.admin.group_conflicts import GroupWishes, ask_wishes, describe_conflict, wishes_of
from flintmq.core.ask import refusal
from flintmq.core.consumer.group_consumer import GroupConsumer
from flintmq.core.group.requests import members_request, read_members
from flintmq.core.group.subscriptions import Subscriptions, TopicSubscription
from flintmq.core.pop.pop_request import is_without_pop, pop_refusal
from flintmq.core.reading.broker_offsets import group_offset
from flintmq.core.refusals import explain_access, is_access_refusal
from flintmq.errors import FlintError, GroupConflict, InvalidSetting
from flintmq.model.group import is_retry_topic
from flintmq.protocol.bodies.client import CheckClientConfig
from flintmq.protocol.bodies.pop import QueryAssignment
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request

OLD_SELF_S: Final = 3.0
"""How long an earlier process with our client id may take to disappear from a broker."""

LOOK_AGAIN_S: Final = 0.1


async def check_start(
    engine: ClientEngine, subscriptions: Subscriptions, config: PushConfig
) -> None:
    """Raise what stands against joining the group."""
    wanted = list(subscriptions)
    await first_routes(engine, [each.topic for each in wanted])
    for each in wanted:
        if each.sql is not None and engine.routes.find(each.topic) is not None:
            await _check_sql(engine, each, config)
    brokers = dict.fromkeys(
        address
        for each in wanted
        if (route := engine.routes.find(each.topic)) is not None
        for replicas in route.brokers
        if (address := replicas.addresses.get(0)) is not None
    )
    for address in brokers:
        if config.mode != "pull":
            await _check_pop(engine, wanted[0].topic, config, address)
        try:
            await _check_group(engine, subscriptions, config, address)
        except (GroupConflict, InvalidSetting):
            raise
        except FlintError as error:  # a broker that is down is no reason not to start
            engine.events.add("start", address, f"the group was not compared: {error}")


async def check_rights(
    engine: ClientEngine,
    machine: GroupConsumer,
    config: PushConfig,
    beats: Mapping[str, FlintError],
) -> None:
    """Raise a refusal because of rights, with what to do; ``beats`` is how heartbeats went wrong.

    Whatever else fails is no reason not to start: it is tried again.
    """
    topics = [each.topic for each in machine.subscriptions if not is_retry_topic(each.topic)]
    outcomes: list[BaseException | None] = [*beats.values()]
    if config.is_clustering:
        known = [topic for topic in topics if engine.routes.find(topic) is not None]
        group = config.wire_group
        outcomes += await asyncio.gather(*(_first_questions(engine, group, t) for t in known))
    for error in outcomes:
        if is_access_refusal(error):
            names = map(engine.user_name, topics)
            account = engine.config.access_key
            raise explain_access(error, account, config.group, names) from error


async def _first_questions(engine: ClientEngine, group: str, topic: str) -> FlintError | None:
    """Ask GET_CONSUMER_LIST_BY_GROUP (38) and QUERY_CONSUMER_OFFSET (14); the error, if any."""
    try:
        address = await engine.some_broker(topic)
        read_members(await engine.call(address, members_request(group)), address)
        for queue in (await engine.subscribe_queues(topic))[:1]:
            master = engine.address_of(queue.broker)
            if master is not None:
                await engine.hold(group_offset(master, group, queue))
    except FlintError as error:
        return error
    return None


async def _check_pop(engine: ClientEngine, topic: str, config: PushConfig, address: str) -> None:
    """QUERY_ASSIGNMENT (400): raise `BrokerRefused` where a broker has no pop consumption."""
    body = QueryAssignment(
        client_id=engine.client_id, consumer_group=config.wire_group, topic=topic
    )
    asked = request(RequestCode.QUERY_ASSIGNMENT, None, body.to_body())
    try:
        reply = await engine.call(address, asked)
    except FlintError as error:
        engine.events.add("start", address, f"not known whether it has pop consumption: {error}")
        return
    if reply.code != ResponseCode.SUCCESS and is_without_pop(
        refused := pop_refusal(reply, address)
    ):
        raise refused


async def _check_sql(engine: ClientEngine, wanted: TopicSubscription, config: PushConfig) -> None:
    """CHECK_CLIENT_CONFIG (46): raise `InvalidSetting` for an expression that brokers refuse."""
    body = CheckClientConfig(
        client_id=engine.client_id,
        group=config.wire_group,
        namespace=config.namespace or None,
        subscription_data=wanted.to_wire(engine.wall()),
    )
    address = await engine.some_broker(wanted.topic)
    reply = await engine.call(
        address, request(RequestCode.CHECK_CLIENT_CONFIG, None, body.to_body())
    )
    if reply.code != ResponseCode.SUCCESS:
        refused = refusal(reply, address)
        if is_access_refusal(refused):
            account, topic = engine.config.access_key, engine.user_name(wanted.topic)
            raise explain_access(refused, account, config.group, [topic])
        raise InvalidSetting("sql", wanted.text, refused.remark or f"{address} says {reply.code}")


async def _check_group(
    engine: ClientEngine, subscriptions: Subscriptions, config: PushConfig, address: str
) -> None:
    group, client_id = config.wire_group, engine.client_id
    own = wishes_of(group, subscriptions.section().subscription_data_set)
    wishes = await _wishes_without_us(engine, group, own, address)
    if wishes is None:
        return
    if wishes.has_own_id:
        reason = (
            f"another live consumer has the client id {client_id}; "
            "give one of them another instance_name"
        )
        raise GroupConflict(config.group, reason)
    conflict = describe_conflict(client_id, own, config.model, wishes)
    if conflict is not None:
        if config.on_conflict == "error":
            raise GroupConflict(config.group, conflict)
        engine.events.add("conflict", config.group, conflict, logging.WARNING)


async def _wishes_without_us(
    engine: ClientEngine, group: str, own: dict[str, str], address: str
) -> GroupWishes | None:
    """The subscriptions of the group.  An earlier process with our client id is waited for."""
    deadline_s = asyncio.get_running_loop().time() + OLD_SELF_S
    while True:
        wishes = await engine.hold(ask_wishes(address, group, engine.client_id, own))
        if wishes is None or not wishes.has_own_id:
            return wishes
        if asyncio.get_running_loop().time() > deadline_s:
            return wishes
        await asyncio.sleep(LOOK_AGAIN_S)
