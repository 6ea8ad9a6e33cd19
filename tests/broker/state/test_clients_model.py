"""Whatever comes and goes, members and producers are those a plain table would have."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.peer import Peer
from flintmq.broker.tables.clients import Clients
from support.broker.heartbeats import consumer, heartbeat, wants

NOW_MS = 1_000_000
GROUPS = st.sampled_from(["G", "H", "I"])
TOPICS = st.frozensets(st.sampled_from(["T", "U"]), max_size=2)


class ClientsAgainstAPlainTable(RuleBasedStateMachine):
    """Members and producers are those a table of (connection, group) would have."""

    def __init__(self) -> None:
        super().__init__()
        self.clients = Clients(BrokerConfig(client_timeout_ms=1_000))
        self.peers = [Peer(f"127.0.0.1:{40_000 + number}") for number in range(3)]
        self.consuming: dict[tuple[int, str], int] = {}
        self.producing: dict[tuple[int, str], int] = {}
        self.now_ms = NOW_MS

    @rule(
        number=st.integers(0, 2),
        consuming=st.dictionaries(GROUPS, TOPICS, max_size=2),
        producing=st.frozensets(GROUPS, max_size=2),
    )
    def beats(
        self, number: int, consuming: dict[str, frozenset[str]], producing: frozenset[str]
    ) -> None:
        groups = [consumer(name, *map(wants, topics)) for name, topics in consuming.items()]
        new = {name for name in consuming if (number, name) not in self.consuming}

        said = heartbeat(f"c{number}", *groups, producers=tuple(producing))
        result = self.clients.heartbeat(said, self.peers[number], "JAVA", 479, self.now_ms)

        assert new <= set(result.changed_groups) <= set(consuming)
        for name, topics in consuming.items():
            self.consuming[number, name] = self.now_ms
            found = self.clients.consumer_group(name)
            assert found is not None
            assert found.subscriptions.keys() == topics
        for name in producing:
            self.producing[number, name] = self.now_ms

    @rule(number=st.integers(0, 2), consuming=st.none() | GROUPS, producing=st.none() | GROUPS)
    def unregisters(self, number: int, consuming: str | None, producing: str | None) -> None:
        left = self.clients.unregister(self.peers[number], f"c{number}", producing, consuming)

        was_there = self.consuming.pop((number, consuming or ""), None) is not None
        self.producing.pop((number, producing or ""), None)
        assert left == ([consuming] if was_there else [])

    @rule(number=st.integers(0, 2))
    def is_lost(self, number: int) -> None:
        left = self.clients.lost(self.peers[number])

        assert left == sorted(name for owner, name in self.consuming if owner == number)
        for table in (self.consuming, self.producing):
            for key in [key for key in table if key[0] == number]:
                del table[key]

    @rule(ms=st.integers(0, 700))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

        times = [*self.consuming.items(), *self.producing.items()]
        late = {self.peers[number] for (number, _), ms in times if self.now_ms - ms > 1_000}
        assert set(self.clients.expired(self.now_ms)) == late

    @invariant()
    def has_the_same_members(self) -> None:
        clients, peers = self.clients, self.peers
        assert {
            (peers.index(peer), found.group)
            for found in clients.consumer_groups()
            for peer in found.members
        } == self.consuming.keys()
        assert {
            (peers.index(member.peer), name)
            for name in clients.producer_groups()
            for member in clients.producers(name)
        } == self.producing.keys()
        for number in range(3):
            found = clients.producer_of_client(f"c{number}")
            is_producer = any(owner == number for owner, _ in self.producing)
            assert (found is not None) == is_producer


TestClientsAgainstAPlainTable = ClientsAgainstAPlainTable.TestCase
TestClientsAgainstAPlainTable.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None
)
