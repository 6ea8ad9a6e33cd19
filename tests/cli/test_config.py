"""Clusters have names in a config file: who names one asks it, as its account; no secret is shown,
and a wrong file is an error that says where and what to write.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from flintmq.cli.shared.profiles import cluster_file_path, read_cluster_file
from flintmq.client.engine.client_config import ClientSettings
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting
from support.cli.asking import Ended

SECRET = "very-secret-9000"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The config file of this test; nothing else says where a cluster is."""
    for name in ("NAMESRV_ADDR", *(each for each in os.environ if each.startswith("FLINTMQ_"))):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "config.toml"
    monkeypatch.setenv("FLINTMQ_CONFIG", str(path))
    return path


def run(*words: str, **variables: str) -> Ended:
    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "200", **variables})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ended(done.exit_code, done.stdout, done.stderr)


# Who names a cluster


def test_a_cluster_is_asked_by_its_name(file: Path) -> None:
    with EmbeddedBroker() as dev, EmbeddedBroker() as prod:
        file.write_text(
            f'default = "dev"\n[clusters.dev]\nnamesrv = "{dev.namesrv}"\n'
            f'[clusters.prod]\nnamesrv = "{prod.namesrv}"\n'
        )

        run("topic", "create", "by-default")
        run("--cluster", "prod", "topic", "create", "by-name")
        run("topic", "create", "by-variable", FLINTMQ_CLUSTER="prod")
        run("--cluster", "dev", "topic", "create", "flag-wins", "-n", prod.namesrv)
        run("topic", "create", "no-default", NAMESRV_ADDR=prod.namesrv)
        run("--cluster", "dev", "topic", "create", "name-wins", NAMESRV_ADDR=prod.namesrv)

        def topics(cluster: str) -> set[str]:
            return {each["topic"] for each in json.loads(run(*cluster_list(cluster)).stdout)}

        assert {"by-default", "name-wins"} <= topics("dev")
        assert {"by-name", "by-variable", "flag-wins", "no-default"} <= topics("prod")
        checked = run("config", "check")
        assert checked.exit_code == 0
        assert checked.stdout.count("yes") == 2


def cluster_list(cluster: str) -> tuple[str, ...]:
    return ("--cluster", cluster, "topic", "list", "--json")


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> list[ClientSettings]:
    """What `topic list` connects with, in place of connecting."""
    seen: list[ClientSettings] = []

    class Admin:
        def __init__(self, **settings: object) -> None:
            seen.append(settings)  # type: ignore[arg-type]  # what the real one is given
            raise InvalidSetting("test", "", "enough seen")

    monkeypatch.setattr("flintmq.client.admin.Admin", Admin)
    return seen


def test_account_and_certificates_come_from_the_cluster_alone(
    file: Path, settings: list[ClientSettings]
) -> None:
    secret = file.with_name("prod.secret")
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    file.write_text(
        '[clusters.prod]\nnamesrv = "ns:9876"\ntls = true\n'
        'access_key = "ops"\nsecret_file = "prod.secret"\n'
        '[clusters.open]\nnamesrv = "open:9876"\n'
    )
    staging = {"FLINTMQ_ACCESS_KEY": "staging", "FLINTMQ_SECRET_KEY": "s", "FLINTMQ_TLS": "1"}

    run("--cluster", "prod", "topic", "list", **staging)
    run("--cluster", "open", "topic", "list", **staging)

    assert settings[0] == {
        "namesrv": "ns:9876",
        "access_key": "ops",
        "secret_key": SECRET,
        "tls": True,
    }
    assert settings[1] == {
        "namesrv": "open:9876",
        "access_key": None,
        "secret_key": None,
        "tls": False,
    }


def test_a_secret_may_be_in_a_variable(file: Path, settings: list[ClientSettings]) -> None:
    file.write_text(
        '[clusters.prod]\nnamesrv = "ns:9876"\naccess_key = "ops"\nsecret_env = "PROD_SECRET"\n'
    )

    without = run("--cluster", "prod", "topic", "list")
    run("--cluster", "prod", "topic", "list", PROD_SECRET=SECRET)

    assert without.exit_code == 2
    assert "PROD_SECRET" in without.stderr
    assert settings[0].get("secret_key") == SECRET


def test_no_command_shows_a_secret(file: Path) -> None:
    secret = file.with_name("s")
    secret.write_text(SECRET)
    secret.chmod(0o600)
    file.write_text(
        '[clusters.prod]\nnamesrv = "127.0.0.1:1"\naccess_key = "ops"\nsecret_file = "s"\n'
    )
    commands = [("list",), ("show", "prod"), ("check",), ("check", "--offline")]

    for words in commands:
        for more in ((), ("--json",)):
            done = run("config", *words, *more)
            assert SECRET not in done.stdout + done.stderr
            assert "prod" in done.stdout
    assert SECRET not in repr(read_cluster_file())
    assert f"file {secret}" in run("config", "show", "prod").stdout


def test_a_secret_that_others_can_read_is_refused(file: Path) -> None:
    secret = file.with_name("s")
    secret.write_text(SECRET)
    secret.chmod(0o644)
    file.write_text(
        '[clusters.prod]\nnamesrv = "127.0.0.1:1"\naccess_key = "ops"\nsecret_file = "s"\n'
    )

    done = run("--cluster", "prod", "topic", "list")
    checked = run("config", "check", "--offline")

    assert done.exit_code == 2
    assert f"others can read it (mode 0644): chmod 600 {secret}" in done.stderr
    assert checked.exit_code == 1
    assert SECRET not in done.stderr + checked.stdout


# A file that is wrong


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clusters = 3", "write a table: [clusters]"),
        ("[cluster.dev]\nnamesrv = 'a:1'", "did you mean clusters?"),
        ("[clusters.dev]\nnamesvr = 'a:1'", "did you mean namesrv?"),
        ("[clusters.dev]\ntls = true", "it has no namesrv"),
        ("[clusters.dev]\nnamesrv = 'a:1'\ntls = 'yes'", "give true or false"),
        ("[clusters.dev]\nnamesrv = 9876", "give a text"),
        ("[clusters.dev]\nnamesrv = 'nonsense'", "clusters.dev.namesrv"),
        ("[clusters.dev]\nnamesrv = 'a:1'\nsecret_key = 'x'", "secret_file names a file"),
        ("[clusters.dev]\nnamesrv = 'a:1'\naccess_key = 'x'", "access_key goes together"),
        ("[clusters.dev]\nnamesrv = 'a:1'\ntls_key = 'x'", "tls_key goes together"),
        ("default = 'prod'\n[clusters.dev]\nnamesrv = 'a:1'", "there are: dev"),
        ("[clusters.dev\n", "it is not TOML"),
        ("x = '\xff'", None),
    ],
)
def test_a_wrong_file_says_where_and_what_to_write(file: Path, text: str, said: str | None) -> None:
    file.write_bytes(text.encode("latin-1") if said is None else text.encode())

    for words in (("config", "list"), ("topic", "list")):
        done = run(*words)
        assert done.exit_code == 2, done
        assert str(file) in done.stderr
        assert (said or "it is not UTF-8") in done.stderr


def test_a_cluster_that_is_not_there_is_told_with_those_that_are(file: Path) -> None:
    file.write_text("[clusters.staging]\nnamesrv = 'a:1'\n")

    done = run("--cluster", "stagin", "topic", "list")

    assert done.exit_code == 2
    assert "there are: staging; did you mean staging?" in done.stderr


def test_a_file_that_the_variable_names_must_be_there(file: Path) -> None:
    assert run("topic", "list").exit_code == 2
    assert run("config", "list").exit_code == 2


def test_without_a_file_there_are_no_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLINTMQ_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    assert cluster_file_path() == tmp_path / "flintmq" / "config.toml"
    assert "names no clusters" in run("config", "list").stdout


def test_checks_say_what_is_wrong_with_which_cluster(file: Path) -> None:
    file.write_text(
        "[clusters.away]\nnamesrv = '127.0.0.1:1'\n"
        "[clusters.bare]\nnamesrv = '127.0.0.1:1'\ntls_cert = 'nowhere.pem'\n"
    )

    away = run("config", "check", "away")
    both = run("config", "check", "--json")

    assert away.exit_code == 3
    assert "refused" in away.stdout
    assert both.exit_code == 1
    bare = next(each for each in json.loads(both.stdout)["clusters"] if each["cluster"] == "bare")
    assert str(file.parent / "nowhere.pem") in bare["error"]
    assert bare["error"].startswith("--tls-cert")


def test_shells_complete_clusters(file: Path) -> None:
    file.write_text("[clusters.staging]\nnamesrv = 'a:1'\n")
    asking = {"COMP_WORDS": "flintmq --cluster st", "COMP_CWORD": "2"}

    done = CliRunner().invoke(
        app, [], env={"_FLINTMQ_COMPLETE": "complete_bash", **asking}, prog_name="flintmq"
    )

    assert done.stdout.split() == ["staging"]
