"""`flintmq serve --brokers N` runs N broker processes as one: one log, one status, one stop."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from flintmq import FlintError, LitePullConsumer, Message, Producer
from flintmq.cli.all_commands import app
from flintmq.cli.broker import choose
from flintmq.cli.brokers.broker_group import (
    RESTART_MAX_S,
    BrokerGroup,
    BrokerMember,
    restart_wait_s,
)
from flintmq.cli.brokers.broker_shares import broker_shares
from flintmq.cli.brokers.child_lines import BrokerReady, ChildPlan, TopicMade, line_of
from flintmq.cli.shared.server_process import LogLevel
from flintmq.protocol.bodies.topic import TopicConfig
from support.cli.asking import Ended, Shell
from support.cli.serving import ANYWHERE, ending, failing, running
from support.embedded.asking import cluster, route, send
from support.metrics.scraping import Scrape, page, scrape
from support.net.ports import PORTS

FREE = ("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE)
WAIT_S = 60


def until(holds: Callable[[], bool]) -> None:
    end_s = monotonic() + WAIT_S
    while not holds():
        assert monotonic() < end_s, "it never came to be"
        sleep(0.02)


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def brokers_of(namesrv: str, topic: str) -> set[str]:
    found = route(namesrv, topic)
    return set() if found is None else {each.broker_name for each in found.queue_datas}


def consumed(namesrv: str, topic: str, wanted: set[bytes]) -> set[bytes]:
    """Every body of a topic, read until all that are wanted were seen."""
    seen: set[bytes] = set()
    with LitePullConsumer("readers", namesrv=namesrv, start_from="first") as consumer:
        consumer.subscribe(topic)
        end_s = monotonic() + WAIT_S
        while not wanted <= seen and monotonic() < end_s:
            seen |= {message.body for message in consumer.poll(500)}
    return seen


class Load:
    """Sends one after another until told to stop; knows what was acknowledged."""

    def __init__(self, namesrv: str) -> None:
        self.acknowledged: list[bytes] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(namesrv,))
        self._thread.start()

    def _run(self, namesrv: str) -> None:
        with Producer("load", namesrv=namesrv) as producer:
            number = 0
            while not self._stop.is_set():
                body = f"m-{(number := number + 1)}".encode()
                try:
                    producer.send(Message("orders", body))
                except FlintError:
                    continue  # not acknowledged, so nothing is promised
                self.acknowledged.append(body)

    def more(self, count: int) -> None:
        """Wait until so many more were acknowledged."""
        wanted = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= wanted)

    def stop(self) -> set[bytes]:
        self._stop.set()
        self._thread.join()
        return set(self.acknowledged)


def test_a_broker_that_is_killed_comes_back_and_nothing_acknowledged_is_lost(
    tmp_path: Path,
) -> None:
    with running("serve", "--brokers", "2", *FREE, "--data", tmp_path) as served:
        before = cluster(served.namesrv)
        load = Load(served.namesrv)
        load.more(50)
        pids = served.brokers()
        os.kill(pids["broker-b"], signal.SIGKILL)
        until(lambda: set(cluster(served.namesrv)) == {"broker-a"})
        send(before["broker-a"], "made-meanwhile")
        load.more(50)  # the other one serves
        until(lambda: cluster(served.namesrv) == before)  # at the same address
        until(lambda: brokers_of(served.namesrv, "made-meanwhile") == set(before))
        send(before["broker-b"], "orders", b"again")
        acknowledged = load.stop() | {b"again"}
        found = consumed(served.namesrv, "orders", acknowledged)
        ends = served.brokers()
        code = served.stop()

    assert acknowledged <= found
    assert ends["broker-a"] == pids["broker-a"]
    assert code == 0
    assert not any(is_there(pid) for pid in ends.values())
    assert served.errors.count("broker-b ended with code -9: started again in 0.5 s") == 1
    assert "Traceback" not in served.errors
    assert [(tmp_path / name / "abort").exists() for name in before] == [False, False]


def test_topics_are_made_on_all_and_status_shows_all(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokers=2\nbrokerName=shop\nbrokerClusterName=Shops\n")
    data = tmp_path / "data"
    with running("serve", "--config", conf, *FREE, "--data", data) as served:
        both = cluster(served.namesrv)
        send(both["shop-1"], "by-send")
        shell = Shell(served.namesrv)
        shell.told("topic", "create", "by-hand")
        until(lambda: brokers_of(served.namesrv, "by-send") == set(both))
        by_hand = brokers_of(served.namesrv, "by-hand")
        listed = [row["broker"] for row in shell.facts("broker", "status")]
        status = [(row["cluster"], row["broker"]) for row in shell.facts("cluster", "status")]
        code = served.stop(signal.SIGINT)

    assert served.line == (
        f"flintmq ready namesrv={served.namesrv} broker={both['shop-0']},{both['shop-1']} "
        f"data={data}\n"
    )
    assert by_hand == set(both)
    assert listed == ["shop-0", "shop-1"]
    assert status == [("Shops", "shop-0"), ("Shops", "shop-1")]
    assert code == 0
    assert re.search(r" INFO shop-1 flintmq\.", served.errors)  # whose line it is
    assert ending("serve", "--config", conf, *FREE, "--data", data, "--brokers", "1")[0] == 1


def test_brokers_whose_parent_is_gone_stop_and_store_everything(tmp_path: Path) -> None:
    with running("serve", "--brokers", "2", *FREE, "--data", tmp_path) as served:
        both = cluster(served.namesrv)
        send(both["broker-a"], "orders", b"kept")
        pids = served.brokers()
        served.process.kill()
        until(lambda: not any(is_there(pid) for pid in pids.values()))

    assert [(tmp_path / name / "abort").exists() for name in both] == [False, False]


def test_accounts_metrics_and_audit_hold_for_every_broker(tmp_path: Path) -> None:
    port = three_ports()
    audit = tmp_path / "audit.jsonl"
    with running(
        *("serve", "--brokers", "2", *FREE, "--data", tmp_path / "data"),
        *("--acl", "auth", "--first-user", "root", "--audit", audit),
        *("--metrics", f"127.0.0.1:{port}"),
        FLINTMQ_FIRST_USER_PASSWORD="rootpw12",
    ) as served:
        create = ("topic", "create", "orders")
        stranger = run(served.namesrv, *create)
        root = run(
            served.namesrv, *create, FLINTMQ_ACCESS_KEY="root", FLINTMQ_SECRET_KEY="rootpw12"
        )
        ready = page(f"127.0.0.1:{port}", "/readyz")[0]
        nodes = [nodes_of(scrape(f"127.0.0.1:{port + up}")) for up in range(3)]
        code = served.stop()

    assert stranger.exit_code == 1
    assert root.exit_code == 0, root
    assert ready == 200
    assert nodes == [{served.namesrv}, {"broker-a"}, {"broker-b"}]
    assert code == 0
    for name in ("broker-a", "broker-b"):
        assert "UPDATE_AND_CREATE_TOPIC" in (tmp_path / f"audit-{name}.jsonl").read_text()


def test_a_port_that_is_taken_ends_the_start_of_all(tmp_path: Path) -> None:
    port = three_ports(10)
    with socket.create_server(("127.0.0.1", port + 10)):
        code, errors = ending(
            *("serve", "--brokers", "2", "--namesrv-listen", ANYWHERE, "--data", tmp_path),
            *("--broker-listen", f"127.0.0.1:{port}", "--no-fast-port"),
        )

    assert code == 1
    assert f"flintmq: broker-b: listen address '127.0.0.1:{port + 10}': " in errors
    assert "broker-b: it ended with code 1 before it was ready" in errors
    assert "Traceback" not in errors


def test_what_several_brokers_cannot_do_is_refused(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokers=2\n")

    admin = failing("serve", "--brokers", "2", "--admin-listen", ANYWHERE, "--data", tmp_path)
    alone = failing("broker", "--config", conf, "--data", tmp_path)
    high = ("--broker-listen", "127.0.0.1:65530")
    ports = failing("serve", "--brokers", "2", *high, "--data", tmp_path)
    none = failing("serve", "--brokers", "0")

    assert (admin[0], alone[0], ports[0], none[0]) == (1, 1, 1, 2)
    assert "it is the address of one broker" in admin[1]
    assert "flintmq serve runs several brokers, flintmq broker one" in alone[1]
    assert "there is no room above for --brokers" in ports[1]
    assert list(tmp_path.iterdir()) == [conf]


def test_the_wait_before_a_restart_doubles_up_to_its_limit() -> None:
    waits = [restart_wait_s(ends) for ends in (1, 2, 3, 7, 100)]

    assert waits == [0.5, 1, 2, RESTART_MAX_S, RESTART_MAX_S]


def test_a_group_is_ready_once_every_broker_is(tmp_path: Path) -> None:
    chosen = choose(
        data=tmp_path, listen=ANYWHERE, name=None, flush=None, advertise=None, file=None
    )
    plans = [
        ChildPlan(share, (), None, None, None, LogLevel.INFO) for share in broker_shares(chosen, 2)
    ]
    group = BrokerGroup(plans, lambda name, address: None)
    before = group.source().why_not_ready()
    for member in group.members:
        member.ready = BrokerReady("127.0.0.1:1", "127.0.0.1:1")

    assert before == ["broker-a does not run", "broker-b does not run"]
    assert group.source().why_not_ready() == []


def test_what_a_broker_was_told_before_it_ended_is_told_again(tmp_path: Path) -> None:
    """It may have ended before it read that."""
    heard = asyncio.run(told_to_one_that_ends(tmp_path))

    assert heard == [line_of(TopicMade(TopicConfig(topic_name="orders")))] * 2


async def told_to_one_that_ends(tmp_path: Path) -> list[bytes]:
    chosen = choose(
        data=tmp_path, listen=ANYWHERE, name=None, flush=None, advertise=None, file=None
    )
    (share,) = broker_shares(chosen, 1)
    plan = ChildPlan(share, (), None, None, None, LogLevel.INFO)
    member = BrokerMember(plan, lambda member, told: None, asyncio.Event())
    heard: list[bytes] = []
    process = SimpleNamespace(stdin=SimpleNamespace(write=heard.append))
    ready = BrokerReady("127.0.0.1:1", "127.0.0.1:1")
    member.process, member.ready = process, ready  # type: ignore[assignment]

    member.have(TopicConfig(topic_name="orders"))
    member.ready = None
    member.ended()
    member.take(ready)
    return heard


def nodes_of(found: Scrape) -> set[str]:
    return {each.labels["node_id"] for each in found.series if "node_id" in each.labels}


def run(namesrv: str, *words: str, **variables: str) -> Ended:
    environment = {"NAMESRV_ADDR": namesrv, "FLINTMQ_NAMESRV": None, **variables}
    done = CliRunner().invoke(app, list(words), env=environment)
    return Ended(done.exit_code, done.stdout, done.stderr)


def three_ports(step: int = 1) -> int:
    """A free port with free ones above it."""
    for port in PORTS[:: 3 * step]:
        with ExitStack() as held:
            try:
                for up in range(3):
                    held.enter_context(socket.create_server(("127.0.0.1", port + up * step)))
            except OSError:
                continue
            return port
    pytest.fail("no three ports are free")
