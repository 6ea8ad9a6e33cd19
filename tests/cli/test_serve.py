"""`flintmq serve` runs both servers, says when they are ready, and tells plainly what is wrong."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from flintmq.broker.scheduled.append import append
from flintmq.cli.all_commands import app
from flintmq.cli.shared.account_options import refuse_if_open
from flintmq.errors import Unreachable
from flintmq.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from flintmq.net.address import Address
from flintmq.net.tls import ClientTls, ServerTls, TlsMode
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import OfTopic
from support.broker.queued import message, records
from support.broker.world import START_MS, World
from support.cli.serving import ANYWHERE, ending, failing, running
from support.embedded.asking import ask, cluster, pull, send
from support.net.certificates import Authority
from support.net.ports import port_with_one_below

FREE = ("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE)


def test_it_says_where_it_is_once_the_broker_is_registered(tmp_path: Path) -> None:
    with running("serve", *FREE, "--data", tmp_path / "store") as served:
        found = cluster(served.namesrv)
        served.stop()

    assert found == {"broker-a": served.broker}
    assert served.line == (
        f"flintmq ready namesrv={served.namesrv} broker={served.broker} data={tmp_path / 'store'}\n"
    )
    assert "warning" not in served.errors
    assert "clients are told" not in served.errors


def test_it_stops_cleanly_when_asked_and_forgets_nothing(tmp_path: Path) -> None:
    with running("serve", *FREE, "--data", tmp_path) as served:
        send(served.broker, "orders", b"kept")
        code = served.stop(signal.SIGTERM)

    was_clean = not (tmp_path / "abort").exists()
    with running("serve", *FREE, "--data", tmp_path) as again:
        found = pull(again.broker, "orders")
        code_of_interrupt = again.stop(signal.SIGINT)

    assert (code, code_of_interrupt) == (0, 0)
    assert "Traceback" not in served.errors + again.errors
    assert was_clean
    assert b"kept" in found.body


def test_a_directory_with_records_that_lead_nowhere_is_served_and_left_at_once(
    tmp_path: Path,
) -> None:
    loops = {SCHEDULE_TOPIC: {"DELAY": 1}, TIMER_TOPIC: {"TIMER_OUT_MS": START_MS}}
    with World(tmp_path) as world:
        for topic, more in loops.items():
            loop = message(world, topic, b"again", REAL_TOPIC=topic, REAL_QID=0, **more)
            append(world.state, loop, world.now_ms)
        append(world.state, message(world, "Ghost", b"x", queue_id=999_999_999), world.now_ms)
        append(world.state, message(world, "Half", b"x", queue_id=999_999_999), world.now_ms)
        append(world.state, message(world, "Half", b"good"), world.now_ms)
        world.settle()

    with running("serve", *FREE, "--data", tmp_path) as served:
        codes = {}
        for topic in ("Ghost", "Half", SCHEDULE_TOPIC):
            answer = ask(served.broker, RequestCode.GET_TOPIC_STATS_INFO, OfTopic(topic=topic))
            codes[topic] = answer.code
        send(served.broker, "orders", b"after")
        found = pull(served.broker, "Half"), pull(served.broker, "orders")
        code = served.stop(signal.SIGTERM)
    with World(tmp_path) as world:
        counts = {topic: len(records(world, topic)) for topic in loops}

    assert code == 0
    assert codes == {"Ghost": 17, "Half": 0, SCHEDULE_TOPIC: 0}
    assert b"good" in found[0].body
    assert b"after" in found[1].body
    assert counts == {SCHEDULE_TOPIC: 1, TIMER_TOPIC: 1}
    for named in (
        "'Ghost' has messages",
        "'Half' has messages",
        f"not delivered to '{SCHEDULE_TOPIC}'",
        f"not delivered to '{TIMER_TOPIC}'",
    ):
        assert served.errors.count(named) == 1


def test_python_runs_the_package_as_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flintmq", "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "--advertise" in done.stdout


def test_a_port_that_is_taken_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"

        code, errors = ending(
            "serve", "--namesrv-listen", ANYWHERE, "--broker-listen", where, "--data", tmp_path
        )

    assert code == 1
    assert f"flintmq: listen address '{where}': " in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("command", ["serve", "broker"])
def test_the_fast_port_is_served_and_told_unless_it_is_turned_off(
    tmp_path: Path, command: str
) -> None:
    port = port_with_one_below(2)
    below = f"127.0.0.1:{port - 2}"
    flag = "--broker-listen" if command == "serve" else "--listen"
    given = [command, flag, f"127.0.0.1:{port}", "--data", str(tmp_path)]
    given += ["--namesrv-listen", ANYWHERE] if command == "serve" else ["--namesrv", nobody()]

    with running(*given) as served:
        found = ask(below, RequestCode.GET_BROKER_RUNTIME_INFO)
        served.stop()
    with running(*given, FLINTMQ_FAST_PORT="0") as without:
        with pytest.raises(Unreachable):
            ask(below, RequestCode.GET_BROKER_RUNTIME_INFO)
        without.stop()

    assert found.code == 0
    assert f"fast port, for all but pulls: {below}" in served.errors
    assert "fast port" not in without.errors


def nobody() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


def test_a_directory_that_is_taken_is_told_in_one_line(tmp_path: Path) -> None:
    with running("serve", *FREE, "--data", tmp_path):
        code, errors = ending("serve", *FREE, "--data", tmp_path)

    assert code == 1
    assert "is locked: another broker has this store open" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--broker-listen", "nowhere"], "address 'nowhere': give host:port"),
        (["--advertise", "0.0.0.0"], "advertise '0.0.0.0': nobody can be reached there"),
        (["--config", "missing.conf"], "missing.conf"),
        (["--name", ""], "name '': it must not be empty"),
        (["--tls-key", "key.pem"], "it needs a certificate"),
        (["--tls-cert", "missing.pem"], "--tls-cert 'missing.pem'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_told_in_one_line(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    code, errors = failing("serve", "--data", tmp_path, *arguments)

    assert code == 1
    assert errors.startswith("flintmq: ")
    assert complaint in errors
    assert errors.count("\n") == 1


def test_a_bad_value_in_the_file_is_told_with_its_key(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("flushDiskType=SOMETIMES\n")

    code, errors = failing("serve", "--config", file)

    assert (code, errors) == (
        1,
        "flintmq: flushDiskType 'SOMETIMES': it must be SYNC_FLUSH or ASYNC_FLUSH\n",
    )


def test_a_flag_beats_the_environment_and_that_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(
        f"brokerName=of-file\nstorePathRootDir={tmp_path / 'of-file'}\nlistenPort=0\n"
        "namesrvAddr=10.0.0.1:9876\nfrobnicate=1\n"
    )
    arguments = ("serve", "--namesrv-listen", ANYWHERE, "--config", file)

    with running(*arguments) as by_file:
        by_file.stop()
    with running(*arguments, FLINTMQ_BROKER_NAME="of-env") as by_environment:
        found = cluster(by_environment.namesrv)
    with running(*arguments, "--name", "of-flag", FLINTMQ_BROKER_NAME="of-env") as by_flag:
        told = cluster(by_flag.namesrv)

    assert by_file.data == tmp_path / "of-file"
    assert f"flintmq: {file}: frobnicate is not used by this broker" in by_file.errors
    assert f"flintmq: {file}: namesrvAddr is not used" in by_file.errors
    assert list(found) == ["of-env"]
    assert list(told) == ["of-flag"]


def test_an_advertised_host_keeps_the_port_that_is_listened_on(tmp_path: Path) -> None:
    with running("serve", *FREE, "--advertise", "localhost", "--data", tmp_path) as served:
        host, port = served.broker.split(":")

        assert host == "localhost"
        assert list(cluster(served.namesrv).values()) == [served.broker]
        assert ask(f"127.0.0.1:{port}", RequestCode.GET_BROKER_RUNTIME_INFO).is_answer


def test_who_listens_everywhere_is_told_what_that_means(tmp_path: Path) -> None:
    everywhere = ("--namesrv-listen", "0.0.0.0:0", "--broker-listen", "0.0.0.0:0")

    with running("serve", *everywhere, "--open", "--data", tmp_path) as served:
        host = served.broker.partition(":")[0]
        reply = ask(served.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO)
        served.stop()

    assert reply.code == ResponseCode.SUCCESS
    assert host != "0.0.0.0"
    assert f"clients are told {host}, the first outer address" in served.errors
    assert "0.0.0.0:0 is open to the network without TLS and access control" in served.errors


def test_tls_is_spoken_when_there_is_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    tls = ("--tls-cert", authority.sign("server"), "--tls-mode", "enforcing")

    with running("serve", *FREE, *tls, "--data", tmp_path / "store") as served:
        trusting = ClientTls(ca_file=authority.ca_file)
        reply = ask(served.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO, tls=trusting)

    assert reply.code == ResponseCode.SUCCESS


def test_with_a_client_authority_nobody_is_served_without_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    tls = ("--tls-cert", authority.sign("server"), "--tls-client-ca", authority.ca_file)

    with running(
        "serve", *FREE, *tls, "--tls-mode", "enforcing", "--data", tmp_path / "store"
    ) as served:
        known = ClientTls(ca_file=authority.ca_file, certificate_file=authority.sign("client"))
        for address in (served.namesrv, served.broker):
            ask(address, RequestCode.GET_BROKER_CLUSTER_INFO, tls=known)
            for stranger in (None, ClientTls(ca_file=authority.ca_file)):
                with pytest.raises(Unreachable):
                    ask(address, RequestCode.GET_BROKER_CLUSTER_INFO, tls=stranger)


@pytest.mark.parametrize("mode", [(), ("--tls-mode", "permissive"), ("--tls-mode", "off")])
@pytest.mark.parametrize("command", ["serve", "broker"])
def test_a_client_authority_is_refused_in_a_mode_that_serves_plain_clients(
    tmp_path: Path, command: str, mode: tuple[str, ...]
) -> None:
    authority = Authority(tmp_path, "authority")
    tls = ("--tls-cert", authority.sign("server"), "--tls-client-ca", authority.ca_file)

    code, said = failing(command, *tls, *mode, "--data", tmp_path / "store")

    assert code == 1
    assert "--tls-mode enforcing" in said


@pytest.mark.parametrize(
    ("mode", "warning"),
    [
        (TlsMode.OFF, "without TLS and access control"),
        (TlsMode.PERMISSIVE, "clients without TLS are served too"),
        (TlsMode.ENFORCING, "without access control"),
    ],
)
def test_who_is_open_to_the_network_is_warned_in_every_mode(
    capsys: pytest.CaptureFixture[str], mode: TlsMode, warning: str
) -> None:
    tls = ServerTls("server.pem", mode=mode)
    refuse_if_open([Address("192.0.2.1", 1)], tls, None, is_open=True)

    assert warning in capsys.readouterr().err


def test_who_takes_only_known_clients_is_not_warned(capsys: pytest.CaptureFixture[str]) -> None:
    tls = ServerTls("server.pem", client_ca_file="ca.pem", mode=TlsMode.ENFORCING)

    refuse_if_open([Address("192.0.2.1", 1)], tls, None, is_open=False)

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--namesrv-listen", "0.0.0.0:0"),
        ("serve", "--broker-listen", "0.0.0.0:0"),
        ("broker", "--listen", "0.0.0.0:0"),
        ("namesrv", "--listen", "0.0.0.0:0"),
        ("namesrv", "--listen", "[::]:0"),
        ("namesrv", "--admin-listen", "0.0.0.0:0"),
        ("serve", "--admin-listen", "0.0.0.0:0"),
        ("serve", "--namesrv-admin-listen", "0.0.0.0:0"),
        ("broker", "--admin-listen", "0.0.0.0:0"),
    ],
)
def test_a_server_that_others_can_reach_does_not_start_without_protection(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    code, said = failing(*arguments, "--data", tmp_path)

    assert code == 1
    assert "nothing keeps them out" in said
    assert "--open" in said


def test_access_control_is_turned_on_by_a_flag_and_a_first_user(
    tmp_path: Path,
) -> None:
    flags = ("--acl", "auth", "--first-user", "root", "--data", tmp_path)

    with running("serve", *FREE, *flags, FLINTMQ_FIRST_USER_PASSWORD="rootpw12") as served:
        for address in (served.namesrv, served.broker):
            refused = ask(address, RequestCode.GET_BROKER_CLUSTER_INFO)
            assert refused.code == ResponseCode.NO_PERMISSION
            assert refused.remark == "username cannot be null."
        served.stop()

    assert "rootpw12" not in served.errors
    assert (tmp_path / "accounts" / "accounts.json").stat().st_mode & 0o077 == 0


def test_broker_conf_turns_access_control_on_by_rocketmqs_names(tmp_path: Path) -> None:
    accounts = tmp_path / "accounts" / "plain_acl.yml"
    accounts.parent.mkdir()
    accounts.write_text("accounts: [{accessKey: admin123, secretKey: admin123pw, admin: true}]")
    accounts.chmod(0o600)
    file = tmp_path / "broker.conf"
    file.write_text("aclEnable=true\n")

    with running("serve", *FREE, "--config", file, "--data", tmp_path) as served:
        refused = ask(served.broker, RequestCode.GET_BROKER_RUNTIME_INFO)

    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert (refused.remark or "").endswith("AclException: No accessKey is configured")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("authorizationEnabled=true", "are true together"),
        ("aclEnable=true\nauthenticationEnabled=true\nauthorizationEnabled=true", "not both"),
        ("initAuthenticationUser=root", '"username"'),
    ],
)
def test_access_control_that_would_protect_nothing_stops_the_start(
    tmp_path: Path, content: str, reason: str
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(content)

    code, said = failing("serve", *FREE, "--config", file, "--data", tmp_path)

    assert code == 1
    assert reason in said


@pytest.mark.parametrize("command", ["serve", "broker", "namesrv"])
def test_every_flag_and_variable_is_documented(command: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    group = typer.main.get_group(app)

    flags, variables = set[str](), set[str]()
    for parameter in group.commands[command].params:
        flags.update(parameter.opts)
        named = parameter.envvar or []
        variables.update([named] if isinstance(named, str) else named)

    assert len(flags) >= 3
    assert {name for name in flags | variables if f"`{name}`" not in page} <= {"--help"}


def test_a_slave_is_not_served_beside_a_name_server_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerRole=SLAVE\nbrokerId=1\n")

    code, words = failing("serve", "--config", file, "--data", tmp_path / "data")

    assert code == 1
    assert "use flintmq broker for a slave" in words
    assert not (tmp_path / "data").exists()
