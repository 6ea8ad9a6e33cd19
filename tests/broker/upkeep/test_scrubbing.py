"""Bits that flip in the log of a running broker are found and, where a replica has them, healed."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flintmq import EmbeddedBroker, Message
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.cli.all_commands import app
from flintmq.net.address import Address
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from support.broker.world import SMALL_STORE
from support.metrics.scraping import scrape

PATIENCE_S = 30.0
COUNT = 100
CONFIG = BrokerConfig(
    store=replace(SMALL_STORE, commit_log_file_bytes=32 * 1024, record_checksums=True),
    scrub_bytes_per_s=1024 * 1024 * 1024,
)
MASTER, SLAVE = "broker-a", "broker-a/1"


def send(broker: EmbeddedBroker) -> None:
    with broker.producer("shop") as producer:
        for number in range(COUNT):
            producer.send(Message("orders", b"%03d" % number * 100))


def log_of(broker: EmbeddedBroker, name: str) -> tuple[Path, int]:
    """The directory of a broker's log, and where the log ends."""
    return broker.call(
        lambda servers: (
            servers.brokers[name].state.log._parts.directory / "commitlog",
            int(servers.brokers[name].state.log.end_offset),
        )
    )


def octets_of(directory: Path, end: int) -> bytes:
    paths = sorted(directory.iterdir())
    return b"".join(path.read_bytes() for path in paths)[:end]


def flip(directory: Path, at: int) -> None:
    path = directory / f"{at - at % (32 * 1024):020d}"
    with path.open("r+b") as file:
        file.seek(at % (32 * 1024))
        (octet,) = file.read(1)
        file.seek(at % (32 * 1024))
        file.write(bytes([octet ^ 4]))


def counts(broker: EmbeddedBroker, name: str) -> tuple[int, int, int]:
    """Damages found, healed, and left."""

    def look(servers: object) -> tuple[int, int, int]:
        scrub = servers.brokers[name].state.log.raw.scrub  # type: ignore[attr-defined]
        return scrub.found_count, scrub.healed_count, len(scrub.damages)

    return broker.call(look)


def places(octets: bytes) -> list[int]:
    """A bit in a header, one in a body, one in properties; each in another record."""
    return [
        octets.find(b"010" * 100) - 40,
        octets.find(b"050" * 100) + 7,
        octets.find(b"090" * 100) + 330,
    ]


@pytest.mark.parametrize("name", [MASTER, SLAVE])
def test_flips_are_healed_from_the_replica(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(config=CONFIG, slaves=1) as pair:
        pair.wait_for(
            lambda: pair.call(lambda servers: bool(servers.brokers[MASTER].state.slaves.slaves)),
            PATIENCE_S,
        )
        send(pair)
        end = log_of(pair, MASTER)[1]
        pair.wait_for(lambda: log_of(pair, SLAVE)[1] == end > 0, PATIENCE_S)
        directory = log_of(pair, name)[0]
        good = octets_of(directory, end)
        for at in places(good):
            flip(directory, at)

        pair.wait_for(lambda: counts(pair, name) == (3, 3, 0), PATIENCE_S)

        assert octets_of(directory, end) == good
        store = directory.parent
        assert len(pair.messages("orders")) == COUNT
        pair.stop_broker(name)
        assert check_store(Disk(), store, CONFIG.store).is_good
    lines = [record.getMessage() for record in caplog.records]
    assert sum(line.startswith("the log is damaged: ") for line in lines) == 3
    assert sum(line.startswith("healed from ") for line in lines) == 3


def test_without_a_replica_damage_is_found_named_and_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listen = Address("127.0.0.1", 0)
    with EmbeddedBroker(tmp_path, config=CONFIG, metrics=listen) as broker:
        send(broker)
        directory, end = log_of(broker, MASTER)
        good = octets_of(directory, end)
        at = places(good)[1]
        flip(directory, at)

        broker.wait_for(lambda: counts(broker, MASTER) == (1, 0, 1), PATIENCE_S)
        passes = _passes(broker)
        broker.wait_for(lambda: _passes(broker) > passes + 2, PATIENCE_S)

        damaged = octets_of(directory, end)
        assert [place for place in range(end) if damaged[place] != good[place]] == [at]
        done = CliRunner().invoke(
            app, ["broker", "status", "broker-a", "--namesrv", broker.namesrv]
        )
        found = scrape(broker.metrics)
        assert found.value("flintmq_scrub_found_total") == 1
        assert found.value("flintmq_scrub_healed_total") == 0
        assert found.value("flintmq_scrub_damaged_places") == 1
        assert found.value("flintmq_scrub_bytes_total") >= end
        assert "its body does not match its checksum" in done.stdout
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(lines) == 2, lines  # once, and not with every pass
    assert lines[0].startswith("the log is damaged: ")
    assert lines[1].startswith("not healed: ")
    assert "no replica is known" in lines[1]


def _passes(broker: EmbeddedBroker) -> int:
    return broker.call(lambda servers: servers.brokers[MASTER].state.log.raw.scrub.passes)
