"""`flintmq store check --against` compares a directory with the log of a running broker."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flintmq import EmbeddedBroker, Message, Producer
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.config.replication_config import ReplicationConfig
from flintmq.cli.all_commands import app
from support.broker.world import SMALL_STORE

CONFIG = BrokerConfig(
    store=replace(SMALL_STORE, commit_log_file_bytes=64 * 1024),
    replication=ReplicationConfig(heartbeat_ms=100),
)
PATIENCE_S = 30.0


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["store", "check", *map(str, arguments)])


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A master with a slave that has everything, and a slave directory that is at rest."""
    with EmbeddedBroker(tmp_path / "pair", config=CONFIG, slaves=1) as pair:
        pair.wait_for(lambda: has_slave(pair), PATIENCE_S)
        with Producer("shop", namesrv=pair.namesrv) as producer:
            for number in range(200):
                producer.send(Message("orders", b"%03d" % number * 200))
        pair.wait_for(lambda: len(set(ends(pair))) == 1, PATIENCE_S)
        yield pair


def has_slave(pair: EmbeddedBroker) -> bool:
    """Whether the slave has connected; one that comes later begins with the last file."""
    return pair.call(lambda servers: bool(servers.brokers["broker-a"].state.slaves.slaves))


def ends(pair: EmbeddedBroker) -> list[int]:
    found = pair.call(
        lambda servers: [each.state.log.end_offset for each in servers.brokers.values()]
    )
    assert len(found) == 2
    return [int(end) for end in found]


def ha_address(pair: EmbeddedBroker, name: str) -> str:
    address = pair.call(lambda servers: servers.brokers[name].state.ha_address)
    assert address
    return str(address)


def slave_directory(pair: EmbeddedBroker) -> Path:
    """The store of the slave, which is stopped."""
    pair.stop_broker("broker-a/1")
    (found,) = (path for path in pair.directory.iterdir() if "1" in path.name)
    return found


def test_a_stopped_slave_is_equal_to_its_master_and_shorter_a_message_later(
    pair: EmbeddedBroker,
) -> None:
    master = ha_address(pair, "broker-a")
    directory = slave_directory(pair)

    equal = check(directory, "--against", master)
    with Producer("shop", namesrv=pair.namesrv) as producer:
        producer.send(Message("orders", b"one more"))
    shorter = check(directory, "--against", master, "--output", "json")

    assert equal.exit_code == 0, equal.output
    assert "equal, both end at" in equal.stdout
    assert shorter.exit_code == 0, shorter.output
    told = json.loads(shorter.stdout)["against"]
    assert told["verdict"] == "shorter"
    assert told["other_end"] > told["end"] == told["stop"]


def test_a_flipped_bit_is_named_with_file_and_message(pair: EmbeddedBroker) -> None:
    master = ha_address(pair, "broker-a")
    directory = slave_directory(pair)
    path = sorted((directory / "commitlog").iterdir())[1]
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes(content)

    done = check(directory, "--against", master)

    assert done.exit_code == 1
    assert f"{path} at byte 500, log offset {64 * 1024 + 500}" in done.stdout
    assert "the broker has message" in done.stdout
    assert "of 'orders'/" in done.stdout
    assert "1 bytes differ" in done.stdout


def test_a_slave_that_runs_can_be_compared_with_too(pair: EmbeddedBroker) -> None:
    slave = ha_address(pair, "broker-a/1")
    done = check(pair.directory / "broker-a", "--against", slave)

    assert done.exit_code == 0, done.output
    assert "equal" in done.stdout


def test_a_peer_that_is_no_broker_is_an_error_of_its_own(pair: EmbeddedBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    done = check(pair.directory / "broker-a", "--against", f"127.0.0.1:{port}")

    assert done.exit_code == 2
    assert "nothing listens there" in done.stderr
