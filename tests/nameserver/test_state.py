"""An encoded route that was kept is the one that would be encoded now."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.nameserver import state as state_module
from flintmq.nameserver.config import NameServerConfig
from flintmq.nameserver.settings import Settings
from flintmq.nameserver.state import NameServerState
from flintmq.net.address import Address
from flintmq.protocol.bodies.topic import TopicConfig
from support.nameserver.servers import registration, topic_table


def fresh() -> NameServerState:
    return NameServerState(NameServerConfig(), Settings(), 0, Address("127.0.0.1", 0))


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(
            ["register", "unregister", "lose", "wipe", "add", "delete", "order", "forget", "config"]
        ),
        st.integers(0, 2),
        st.integers(0, 7),
    ),
    max_size=12,
)


def change(state: NameServerState, what: str, which: int, how: int) -> None:
    broker, address = f"broker-{which}", f"10.0.0.{how % 3}:10911"
    match what:
        case "register":
            table = topic_table([TopicConfig(topic_name="orders", perm=how), "bills"], how)
            acting = bool(how & 1)
            state.routes.register(
                registration(broker, how % 2, address, table=table, acting_master=acting),
                which,
                0,
            )
        case "unregister":
            state.routes.unregister("c", broker, address)
        case "lose":
            state.routes.connection_lost(which)
        case "wipe":
            state.routes.wipe_write_permission(broker)
        case "add":
            state.routes.add_write_permission(broker)
        case "delete":
            state.routes.delete_topic("orders")
        case "order":
            state.settings.put("ORDER_TOPIC_CONFIG", "orders", f"{broker}:{how}")
        case "forget":
            state.settings.delete("ORDER_TOPIC_CONFIG", "orders")
        case _:
            state.config = NameServerConfig(
                order_message_enable=bool(how & 1), support_acting_master=bool(how & 2)
            )


@settings(max_examples=150, deadline=None)
@given(CHANGES, st.booleans())
def test_a_kept_route_is_never_an_old_one(
    changes: list[tuple[str, int, int]], bare_keys: bool
) -> None:
    state = fresh()
    state.routes.register(registration("broker-0"), 0, 0)
    for what, which, how in changes:
        state.route_body("orders", bare_keys=bare_keys)

        change(state, what, which, how)

        kept = state.route_body("orders", bare_keys=bare_keys)
        state._bodies_of = None
        assert kept == state.route_body("orders", bare_keys=bare_keys)


def test_a_route_is_encoded_once_until_something_changes() -> None:
    state = fresh()
    state.routes.register(registration(), "p", 0)

    first = state.route_body("orders", bare_keys=False)
    state.routes.register(registration(), "p", 1)
    second = state.route_body("orders", bare_keys=False)

    assert first is not None
    assert second is first


def test_a_route_is_encoded_anew_when_only_a_flag_of_its_broker_changed() -> None:
    state = fresh()
    state.routes.register(registration(acting_master=False), "p", 0)
    before = state.route_body("orders", bare_keys=False)

    state.routes.register(registration(acting_master=True), "p", 1)
    after = state.route_body("orders", bare_keys=False)

    assert before is not None
    assert after == before.replace(b"false", b"true")


def test_only_so_many_routes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "ROUTE_BODIES_MAX", 3)
    state = fresh()
    topics = [f"topic-{n}" for n in range(10)]
    state.routes.register(registration(table=topic_table(topics)), "p", 0)

    for topic in topics:
        assert state.route_body(topic, bare_keys=False) is not None

    assert len(state._bodies) <= 3


def test_asking_for_what_is_not_there_keeps_nothing() -> None:
    state = fresh()

    assert state.route_body("nobody's", bare_keys=True) is None
    assert not state._bodies
