"""The tables tell exactly what living brokers told, by the rules of RocketMQ 5.3.3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flintmq.errors import InvalidName, Overloaded
from flintmq.model.topic import Permission, TopicFlag
from flintmq.nameserver import replicas, routes
from flintmq.nameserver.replicas import Registered, Registration
from flintmq.nameserver.routes import MEMBER_TOPIC_PREFIX, RouteTable
from flintmq.protocol.bodies.route import QueueEntry
from flintmq.protocol.bodies.topic import TopicConfig
from support.nameserver.servers import registration, topic_table

MASTER, SLAVE, OTHER = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"


def tables(*given: Registration) -> RouteTable:
    """Tables in which these registered, each over a connection named by its address."""
    found = RouteTable()
    for one in given:
        assert found.register(one, one.address, 0) is not None
    return found


def addresses(found: RouteTable, broker: str = "broker-a") -> dict[int, str]:
    return found.members("c", broker).broker_addrs


def queues(found: RouteTable, topic: str = "orders") -> list[QueueEntry]:
    route = found.route(topic)
    return [] if route is None else list(route.queue_datas)


def permission(found: RouteTable, topic: str = "orders") -> int:
    (entry,) = queues(found, topic)
    return entry.perm


def test_a_route_has_the_queues_and_brokers_of_its_topic() -> None:
    small = TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=3, perm=4)
    found = tables(
        registration(table=topic_table([small, "bills"])),
        registration("broker-b", 0, OTHER, table=topic_table(["bills", "more"])),
    )

    orders, bills = found.route("orders"), found.route("bills")

    assert orders is not None
    assert bills is not None
    assert orders.queue_datas == (
        QueueEntry(broker_name="broker-a", perm=4, read_queue_nums=2, write_queue_nums=3),
    )
    assert [one.broker_addrs for one in orders.broker_datas] == [{0: MASTER}]
    assert [one.broker_name for one in bills.broker_datas] == ["broker-a", "broker-b"]
    assert found.route("nobody's") is None


def test_an_address_that_comes_under_another_id_leaves_the_old_one_and_keeps_its_topics() -> None:
    found = tables(registration(broker_id=1))

    found.register(registration(broker_id=0), "p", 1)

    assert addresses(found) == {0: MASTER}
    assert permission(found) == 6


def test_an_address_that_comes_under_another_name_leaves_the_old_one() -> None:
    found = tables(registration("broker-a"))

    found.register(registration("broker-b", table=topic_table(["bills", "more"])), "p", 1)

    assert found.cluster().cluster_addr_table == {"c": ("broker-b",)}
    assert found.topics() == ("bills", "more")


def test_an_id_goes_to_another_address() -> None:
    found = tables(registration(address=MASTER))

    found.register(registration(address=OTHER), "p", 1)
    found.unregister("c", "broker-a", MASTER)

    assert addresses(found) == {0: OTHER}
    assert found.known_version("c", MASTER) is None


def test_an_id_does_not_go_to_one_that_was_elected_earlier() -> None:
    newer, older = topic_table(state_version=2), topic_table(state_version=1)
    found = tables(registration(address=MASTER, table=newer))

    told = found.register(registration(address=OTHER, table=older), "p", 1)

    assert told == Registered()
    assert addresses(found) == {0: MASTER}
    assert found.known_version("c", OTHER) is None


def test_one_elected_earlier_also_loses_the_id_it_had() -> None:
    newer, older = topic_table(state_version=2), topic_table(state_version=1)
    found = tables(
        registration(address=MASTER, table=newer),
        registration(broker_id=1, address=SLAVE, table=older),
    )

    found.register(registration(broker_id=0, address=SLAVE, table=older), SLAVE, 1)

    assert addresses(found) == {0: MASTER}


def test_a_first_registration_with_one_topic_is_refused_and_leaves_nothing() -> None:
    found = RouteTable()

    told = found.register(registration(table=topic_table(["orders"])), "p", 0)

    assert told is None
    assert found.cluster().broker_addr_table == {}
    assert found.cluster().cluster_addr_table == {}
    assert found.topics() == ()


def test_one_more_topic_of_a_known_broker_is_added_to_the_others() -> None:
    found = tables(registration())

    found.register(registration(table=topic_table(["new"], version=2)), "p", 1)

    assert found.topics() == ("orders", "bills", "new")


def test_a_topic_is_changed_only_with_another_version() -> None:
    found = tables(registration())
    changed = [TopicConfig(topic_name="orders", perm=4), TopicConfig(topic_name="bills")]

    found.register(registration(table=topic_table(changed, version=1)), "p", 1)
    same_version = permission(found)
    found.register(registration(table=topic_table(changed, version=2)), "p", 2)

    assert same_version == 6
    assert permission(found) == 4


def test_a_topic_that_is_missing_is_added_without_another_version() -> None:
    found = tables(registration())
    found.delete_topic("orders")

    found.register(registration(), "p", 1)

    assert found.topics() == ("bills", "orders")


def test_topics_that_are_left_out_stay_unless_told_otherwise() -> None:
    found = tables(registration(table=topic_table(["a", "b", "c"])))
    fewer = registration(table=topic_table(["a", "b"], version=2))

    found.register(fewer, "p", 1)
    kept = found.topics()
    found.register(fewer, "p", 2, delete_missing=True)

    assert kept == ("a", "b", "c")
    assert found.topics() == ("a", "b")


def test_a_slave_is_told_where_its_master_is_and_adds_no_topics() -> None:
    found = tables(registration())

    told = found.register(
        registration(broker_id=1, address=SLAVE, table=topic_table(["x", "y"])), SLAVE, 1
    )

    assert told == Registered(ha_address=f"ha of {MASTER}", master_address=MASTER)
    assert found.topics() == ("orders", "bills")
    assert addresses(found) == {0: MASTER, 1: SLAVE}


def test_a_slave_without_a_master_is_told_nothing() -> None:
    found = RouteTable()

    assert found.register(registration(broker_id=1), "p", 0) == Registered()


@pytest.mark.parametrize(
    ("acting_master", "perm"), [(None, None), (False, 6), (True, 4)], ids=["4.9", "5.x", "acting"]
)
def test_the_first_slave_brings_topics_from_5_0_on_and_read_only_when_it_acts(
    acting_master: bool | None, perm: int | None
) -> None:
    found = tables(registration(broker_id=1, address=SLAVE, acting_master=acting_master))

    assert [entry.perm for entry in queues(found)] == ([] if perm is None else [perm])


def test_queues_become_read_only_when_the_master_of_an_acting_slave_goes() -> None:
    found = tables(
        registration(acting_master=True),
        registration(broker_id=2, address=SLAVE, acting_master=True),
        registration(broker_id=1, address=OTHER, acting_master=True),
    )

    found.unregister("c", "broker-a", MASTER)

    assert permission(found) == 4
    plain, acting = found.route("orders"), found.route("orders", acting_masters=True)
    assert plain is not None
    assert acting is not None
    assert plain.broker_datas[0].broker_addrs == {1: OTHER, 2: SLAVE}
    assert acting.broker_datas[0].broker_addrs == {0: OTHER, 2: SLAVE}


def test_a_slave_that_becomes_the_master_makes_its_queues_writable_again() -> None:
    found = tables(registration(broker_id=1, acting_master=True))
    as_slave = permission(found)

    found.register(registration(broker_id=0, acting_master=True), MASTER, 1)

    assert (as_slave, permission(found)) == (4, 6)


def test_replicas_see_true_ids_in_the_topic_they_find_each_other_by() -> None:
    topic = f"{MEMBER_TOPIC_PREFIX}broker-a"
    table = topic_table([topic, "orders"])
    found = tables(registration(broker_id=1, acting_master=True, table=table))

    route = found.route(topic, acting_masters=True)

    assert route is not None
    assert route.broker_datas[0].broker_addrs == {1: MASTER}


def test_without_leave_to_act_a_topic_stays_readable_from_the_slave_as_it_was() -> None:
    found = tables(registration(), registration(broker_id=1, address=SLAVE))

    found.unregister("c", "broker-a", MASTER)

    assert permission(found) == 6
    route = found.route("orders", acting_masters=True)
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {1: SLAVE}


def test_topics_go_with_the_last_address_of_their_broker() -> None:
    found = tables(
        registration(), registration("broker-b", 0, OTHER, table=topic_table(["bills", "more"]))
    )

    found.unregister("c", "broker-a", MASTER)

    assert found.topics() == ("bills", "more")
    assert [entry.broker_name for entry in queues(found, "bills")] == ["broker-b"]
    assert found.cluster().cluster_addr_table == {"c": ("broker-b",)}


def test_goodbye_of_a_stranger_changes_nothing() -> None:
    found = tables(registration())

    found.unregister("c", "broker-b", MASTER)
    found.unregister("other", "broker-a", MASTER)
    found.unregister("c", "broker-a", OTHER)

    assert addresses(found) == {0: MASTER}


def test_a_lost_connection_takes_every_broker_that_registered_over_it() -> None:
    found = RouteTable()
    found.register(registration("broker-a", 0, MASTER), "shared", 0)
    found.register(registration("broker-b", 0, SLAVE), "shared", 0)
    found.register(registration("broker-c", 0, OTHER), "own", 0)

    found.connection_lost("shared")

    assert list(found.cluster().broker_addr_table) == ["broker-c"]


def test_the_loss_of_an_old_connection_does_not_harm_a_broker_that_came_back() -> None:
    found = RouteTable()
    found.register(registration(), "old", 0)
    found.register(registration(), "new", 1)

    found.connection_lost("old")

    assert addresses(found) == {0: MASTER}


def test_a_broker_expires_after_its_own_time_to_the_millisecond() -> None:
    found = RouteTable()
    found.register(registration(timeout_ms=1_000), "p", 5_000)

    assert found.expire(6_000) == []
    assert addresses(found) == {0: MASTER}
    assert found.expire(6_001) == ["p"]
    assert addresses(found) == {}


def test_a_connection_that_others_use_is_not_given_up_with_one_silent_broker() -> None:
    found = RouteTable()
    found.register(registration("broker-a", 0, MASTER, timeout_ms=10), "shared", 0)
    found.register(registration("broker-b", 0, OTHER, timeout_ms=99), "shared", 0)

    assert found.expire(50) == []
    assert list(found.cluster().broker_addr_table) == ["broker-b"]
    assert found.expire(100) == ["shared"]


def test_signs_of_life_and_a_moved_clock_keep_a_broker() -> None:
    found = RouteTable()
    found.register(registration(timeout_ms=1_000), "p", 0)

    found.refresh("c", MASTER, 900)
    found.carry(3_600_000)

    assert found.expire(3_600_000 + 1_900) == []
    assert found.expire(3_600_000 + 1_901) == ["p"]


def test_write_permission_is_taken_and_given_for_all_topics_of_one_broker() -> None:
    template = TopicConfig(topic_name="TBW102", perm=7)
    found = tables(
        registration(table=topic_table(["orders", template])),
        registration("broker-b", 0, OTHER, table=topic_table(["bills", "more"])),
    )

    wiped = found.wipe_write_permission("broker-a")
    after_wipe = (permission(found, "orders"), permission(found, "TBW102"))
    added = found.add_write_permission("broker-a")

    assert (wiped, added) == (2, 2)
    assert after_wipe == (4, 5)
    assert permission(found, "TBW102") == Permission.READ | Permission.WRITE
    assert permission(found, "bills") == 6
    assert found.wipe_write_permission("nobody") == 0


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    def both() -> RouteTable:
        return tables(registration(), registration("broker-b", 0, OTHER, cluster="d"))

    in_one, in_none, everywhere = both(), both(), both()
    in_one.delete_topic("orders", "d")
    in_none.delete_topic("orders", "e")
    everywhere.delete_topic("orders")

    assert [entry.broker_name for entry in queues(in_one)] == ["broker-a"]
    assert len(queues(in_none)) == 2
    assert everywhere.topics() == ("bills",)


def test_a_topic_made_known_by_hand_needs_brokers_that_are_known() -> None:
    found = tables(registration())
    known, unknown = QueueEntry(broker_name="broker-a", perm=6), QueueEntry(broker_name="x")

    assert found.register_topic("new", [known])
    assert not found.register_topic("newer", [known, unknown])
    assert found.topics() == ("orders", "bills", "new")


def test_topic_lists_tell_clusters_and_units_apart() -> None:
    unit = TopicConfig(topic_name="unit", topic_sys_flag=1)
    both = TopicConfig(topic_name="both", topic_sys_flag=3)
    subscribed = TopicConfig(topic_name="sub", topic_sys_flag=2)
    found = tables(
        registration(table=topic_table([unit, both])),
        registration("broker-b", 0, OTHER, cluster="d", table=topic_table([subscribed, both])),
    )
    none = TopicFlag(0)

    assert found.topics_of_cluster("c") == ("unit", "both")
    assert found.topics_of_cluster("d") == ("both", "sub")
    assert found.topics_of_cluster("e") == ()
    assert found.topics_flagged(TopicFlag.UNIT, none) == ("unit", "both")
    assert found.topics_flagged(TopicFlag.UNIT_SUBSCRIPTION, none) == ("both", "sub")
    assert found.topics_flagged(TopicFlag.UNIT_SUBSCRIPTION, TopicFlag.UNIT) == ("sub",)
    assert found.system_topics() == ("c", "broker-a", "d", "broker-b")
    assert found.any_address() == MASTER


def test_filter_servers_are_in_the_route_while_there_are_any() -> None:
    found = tables(registration(filter_servers=("f:1",)))
    with_servers = found.route("orders")
    found.register(registration(), "p", 1)
    without = found.route("orders")

    assert with_servers is not None
    assert without is not None
    assert with_servers.filter_server_table == {MASTER: ("f:1",)}
    assert without.filter_server_table == {}


def test_what_no_real_broker_tells_is_refused_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "REPLICAS_MAX", 1)
    monkeypatch.setattr(routes, "QUEUES_MAX", 3)
    found = tables(registration())
    long = "x" * (replicas.NAME_CHARACTERS_MAX + 1)

    with pytest.raises(Overloaded, match="registered brokers"):
        found.register(registration("broker-b", 0, OTHER), "p", 1)
    with pytest.raises(Overloaded, match="topics of all brokers"):
        found.register(registration(table=topic_table(["orders", "x", "y"], version=2)), "p", 1)
    with pytest.raises(Overloaded, match="topics of all brokers"):
        found.register_topic("x", [QueueEntry(broker_name="broker-a")] * 2)
    with pytest.raises(Overloaded, match="filter servers"):
        found.register(registration(filter_servers=("f",) * 65), "p", 1)
    for bad in (
        registration(broker=long),
        registration(address=long),
        registration(cluster=long),
        registration(table=topic_table([long, "orders"])),
        registration(filter_servers=(long,)),
    ):
        with pytest.raises(InvalidName, match="longer than 1024"):
            found.register(bad, "p", 1)

    assert list(found.cluster().broker_addr_table) == ["broker-a"]
    assert found.topics() == ("orders", "bills")


def test_one_connection_registers_so_many_brokers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "PEER_REPLICAS_MAX", 2)
    found = RouteTable()
    found.register(registration(), "p", 1)
    found.register(registration("broker-b", 0, OTHER), "p", 1)

    with pytest.raises(Overloaded, match="brokers of one connection"):
        found.register(registration("broker-c", 0, SLAVE), "p", 1)

    found.register(registration("broker-b", 0, OTHER), "p", 2)
    found.register(registration("broker-c", 0, SLAVE), "q", 2)
    assert list(found.cluster().broker_addr_table) == ["broker-a", "broker-b", "broker-c"]


def test_so_many_names_of_topics_are_known_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "TOPICS_MAX", 3)
    found = tables(registration())
    found.register(registration("broker-b", 0, OTHER), "q", 1)
    found.register_topic("x", [QueueEntry(broker_name="broker-a")])

    with pytest.raises(Overloaded, match="names of topics"):
        found.register_topic("y", [QueueEntry(broker_name="broker-a")])

    found.register_topic("x", [QueueEntry(broker_name="broker-b")])
    assert found.topics() == ("orders", "bills", "x")


def test_no_route_has_more_queues_than_clients_take() -> None:
    huge = 2**31 - 1
    wide = TopicConfig(topic_name="orders", read_queue_nums=huge, write_queue_nums=huge)
    found = tables(registration(table=topic_table([wide, "bills"])))

    route = found.route("orders")
    with pytest.raises(Overloaded, match="queues of a topic"):
        found.register_topic("x", [QueueEntry(broker_name="broker-a", read_queue_nums=huge)])

    assert route is not None
    (queues,) = route.queue_datas
    assert queues.read_queue_nums == queues.write_queue_nums == replicas.TOPIC_QUEUES_MAX
    assert found.route("x") is None


def test_a_broker_that_leaves_costs_its_own_topics_only() -> None:
    """Hundreds of brokers may leave with one connection while the tables are large."""
    looked_at = 0

    class Counted(dict[str, dict[str, QueueEntry]]):
        def items(self) -> Any:
            nonlocal looked_at
            looked_at += len(self)
            return super().items()

        def __iter__(self) -> Iterator[str]:
            nonlocal looked_at
            looked_at += len(self)
            return super().__iter__()

    found = tables(registration())
    found._topics = Counted(found._topics)
    found.register(registration("broker-b", 0, OTHER, table=topic_table(["x", "y"])), "q", 1)

    found.wipe_write_permission("broker-b")
    found.connection_lost("q")

    assert looked_at == 0
    assert found.topics() == ("orders", "bills")


BROKERS = st.sampled_from(["broker-a", "broker-b"])
IDS = st.integers(0, 2)
PLACES = st.sampled_from([MASTER, SLAVE, OTHER, "10.0.0.4:10911"])
PEERS = st.sampled_from(["p", "q", "r"])


class Tables(RuleBasedStateMachine):
    """Replicas against the simplest thing that could be right: a list of who is where."""

    def __init__(self) -> None:
        super().__init__()
        self.found = RouteTable()
        self.now_ms = 0
        self.alive: dict[str, tuple[str, int, str, int]] = {}

    @rule(broker=BROKERS, broker_id=IDS, address=PLACES, peer=PEERS, version=st.integers(1, 3))
    def register(self, broker: str, broker_id: int, address: str, peer: str, version: int) -> None:
        table = topic_table([f"of {broker}", "shared"], version)
        given = registration(broker, broker_id, address, table=table, timeout_ms=100)

        self.found.register(given, peer, self.now_ms)

        self.alive = {a: who for a, who in self.alive.items() if who[:2] != (broker, broker_id)}
        self.alive[address] = (broker, broker_id, peer, self.now_ms)

    @rule(address=PLACES, broker=BROKERS)
    def unregister(self, address: str, broker: str) -> None:
        self.found.unregister("c", broker, address)

        if self.alive.get(address, ("",))[0] == broker:
            del self.alive[address]

    @rule(peer=PEERS)
    def lose(self, peer: str) -> None:
        self.found.connection_lost(peer)

        self.alive = {a: who for a, who in self.alive.items() if who[2] != peer}

    @rule(passed_ms=st.integers(0, 80))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        unused = self.found.expire(self.now_ms)

        before = {who[2] for who in self.alive.values()}
        self.alive = {a: who for a, who in self.alive.items() if who[3] + 100 >= self.now_ms}
        assert set(unused) == before - {who[2] for who in self.alive.values()}

    @invariant()
    def tells_who_is_where(self) -> None:
        expected: dict[str, dict[int, str]] = {}
        for address, (broker, broker_id, _, _) in self.alive.items():
            expected.setdefault(broker, {})[broker_id] = address
        cluster = self.found.cluster()

        told = {name: one.broker_addrs for name, one in cluster.broker_addr_table.items()}
        assert told == expected
        assert {*cluster.cluster_addr_table.get("c", ())} == expected.keys()

    @invariant()
    def has_topics_of_living_brokers_only(self) -> None:
        brokers = {who[0] for who in self.alive.values()}

        assert {entry.broker_name for entry in queues(self.found, "shared")} <= brokers
        for topic in self.found.topics():
            assert self.found.route(topic) is not None

    def teardown(self) -> None:
        for peer in ("p", "q", "r"):
            self.found.connection_lost(peer)
        assert self.found.topics() == ()
        assert self.found._queue_count == 0
        assert not self.found.cluster().cluster_addr_table


TestTables = Tables.TestCase
TestTables.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
