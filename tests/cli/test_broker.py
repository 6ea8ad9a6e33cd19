"""`flintmq broker` registers at its name servers and leaves them when it stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.cli.shared.server_process import parse_advertised
from flintmq.errors import InvalidSetting
from flintmq.net.address import Address
from flintmq.protocol.codes import ResponseCode
from support.cli.serving import ANYWHERE, failing, running
from support.embedded.asking import cluster, send


def test_it_registers_at_every_name_server_and_leaves_them(tmp_path: Path) -> None:
    with (
        running("namesrv", "--listen", ANYWHERE) as first,
        running("namesrv", "--listen", ANYWHERE) as second,
    ):
        both = f"{first.namesrv};{second.namesrv}"
        with running("broker", "--listen", ANYWHERE, "--namesrv", both, "--data", tmp_path) as one:
            told = [cluster(first.namesrv), cluster(second.namesrv)]
            reply = send(one.broker, "orders")
            code = one.stop()

        left = [cluster(first.namesrv), cluster(second.namesrv)]

    assert told == [{"broker-a": one.broker}] * 2
    assert reply.code == ResponseCode.SUCCESS
    assert left == [{}, {}]
    assert code == 0
    assert one.line == f"flintmq ready broker={one.broker} data={tmp_path}\n"


def test_the_name_server_may_be_named_by_rocketmqs_own_variable(tmp_path: Path) -> None:
    with (
        running("namesrv", "--listen", ANYWHERE) as server,
        running(
            "broker", "--listen", ANYWHERE, "--data", tmp_path, NAMESRV_ADDR=server.namesrv
        ) as one,
    ):
        assert cluster(server.namesrv) == {"broker-a": one.broker}


def test_the_file_names_broker_and_name_servers(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"

    with running("namesrv", "--listen", ANYWHERE) as server:
        file.write_text(
            f"brokerName=b1\nlistenPort=0\nnamesrvAddr={server.namesrv}\nstorePathRootDir={tmp_path}"
        )
        with running("broker", "--config", file) as one:
            assert cluster(server.namesrv) == {"b1": one.broker}
        with running("broker", FLINTMQ_BROKER_CONFIG=str(file)) as one:
            assert cluster(server.namesrv) == {"b1": one.broker}


def test_the_old_variable_for_the_file_works_and_warns(tmp_path: Path) -> None:
    """FLINTMQ_CONFIG names clusters for the other commands: that is a file of TOML."""
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=b1\nlistenPort=0\n")
    clusters = tmp_path / "config.toml"
    clusters.write_text("[clusters.dev]\nnamesrv = 'a:1'\n")

    with running("namesrv", "--listen", ANYWHERE) as server:
        words = ("broker", "--namesrv", server.namesrv, "--data", tmp_path / "store")
        with running(*words, FLINTMQ_CONFIG=str(file)) as one:
            assert cluster(server.namesrv) == {"b1": one.broker}
            one.stop()
        with running(*words, "--listen", ANYWHERE, FLINTMQ_CONFIG=str(clusters)) as other:
            assert cluster(server.namesrv) == {"broker-a": other.broker}

    assert "use FLINTMQ_BROKER_CONFIG" in one.errors


def test_a_name_server_nobody_can_reach_is_refused(tmp_path: Path) -> None:
    code, errors = failing("broker", "--namesrv", "127.0.0.1:0", "--data", tmp_path)

    assert code == 1
    assert "nobody can be reached at port 0" in errors


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("example.org", Address("example.org", 0)),
        ("example.org:10911", Address("example.org", 10911)),
        ("10.0.0.1", Address("10.0.0.1", 0)),
        ("[fd00::1]", Address("fd00::1", 0)),
        ("[fd00::1]:10911", Address("fd00::1", 10911)),
    ],
)
def test_an_advertised_address_may_leave_out_its_port(text: str, address: Address) -> None:
    assert parse_advertised(text) == address


@pytest.mark.parametrize("text", ["", "::", "fd00::1", "[::]", "a b", "x:y", "http://x"])
def test_what_nobody_can_connect_to_is_not_advertised(text: str) -> None:
    with pytest.raises(InvalidSetting, match="advertise"):
        parse_advertised(text)
