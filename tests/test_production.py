"""The files in `deploy` and the pages on production are true: each is tried where that can be."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from flintmq import EmbeddedBroker
from flintmq.cli.all_commands import app as command_line
from support.cli.serving import ANYWHERE, COMMAND, environment, running

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
PAGES = ROOT / "docs" / "production"
SOURCE = ROOT / "src" / "flintmq"
INSTALLED = "/opt/flintmq/bin/flintmq"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def run_flintmq(*words: str) -> int:
    done = subprocess.run([COMMAND, *words], capture_output=True, env=environment(), check=False)
    return done.returncode


# systemd


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_a_unit_without_a_warning(unit: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    command = tmp_path / "flintmq"
    command.write_text("#!/bin/sh\n", encoding="utf-8")
    command.chmod(0o755)
    text = unit.read_text(encoding="utf-8").replace(INSTALLED, str(command))
    copy = tmp_path / unit.name.replace("@.", "@shop.")
    copy.write_text(text.replace("/srv/%i", str(tmp_path)), encoding="utf-8")

    done = subprocess.run([analyze, "verify", copy], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_waits_longer_for_a_stop_than_a_stop_takes(unit: Path) -> None:
    text = unit.read_text(encoding="utf-8")

    (waits_s,) = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)

    assert int(waits_s) > 30
    assert "KillSignal=SIGTERM" in text


def calls() -> Iterator[tuple[str, list[str]]]:
    """The calls of the command in all files of `deploy`."""
    for unit in UNITS:
        for line in re.findall(rf"{INSTALLED} ([^;>'\n]+)", unit.read_text(encoding="utf-8")):
            yield unit.name, shlex.split(line)
    container = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    for line in re.findall(r"^(?:HEALTHCHECK .*)?CMD (\[.*\])$", container, re.MULTILINE):
        yield "Containerfile", [word for word in json.loads(line) if word != "flintmq"]
    for path, manifest in manifests():
        for words in commands(manifest):
            yield path, [word for word in words if word != "flintmq"]


def test_every_call_in_deploy_is_one_that_exists() -> None:
    root: Any = typer.main.get_command(command_line)
    found = 0
    for where, words in calls():
        known = root
        while words and words[0] in getattr(known, "commands", {}):
            known = known.commands[words.pop(0)]
        options = {name for each in known.params for name in each.opts}
        assert known is not root, where
        assert {word for word in words if word.startswith("-")} <= options, where
        found += 1

    assert found >= 7


def test_every_variable_in_deploy_is_one_that_a_server_reads() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    texts = (path.read_text(encoding="utf-8") for path in DEPLOY.rglob("*") if path.is_file())
    used = {name for text in texts for name in re.findall(r"\bFLINTMQ_[A-Z_]+", text)}

    assert used
    assert {name for name in used if f"`{name}`" not in page} == set()


# Containers and Kubernetes


def test_what_the_image_copies_is_there() -> None:
    container = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", container, re.MULTILINE)

    assert copied
    assert [name for line in copied for name in line.split() if not (ROOT / name).exists()] == []


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield path.name, manifest


def commands(manifest: dict[str, Any]) -> Iterator[list[str]]:
    template = manifest.get("spec", {}).get("template", {}).get("spec", {})
    for container in template.get("containers", ()):
        yield container.get("command") or container["args"]
        probe = container.get("readinessProbe", {}).get("exec")
        if probe:
            yield probe["command"]


def test_manifests_are_what_kubernetes_knows() -> None:
    validate = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed"
    )
    seen = set()

    for _, manifest in manifests():
        validate.validate(manifest, validate.latest_version(), strict=True)
        seen.add(manifest["kind"])

    assert seen == {"Namespace", "Service", "StatefulSet", "Deployment"}


def test_a_pod_has_longer_to_stop_than_a_stop_takes() -> None:
    graces = [
        manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        for _, manifest in manifests()
        if "template" in manifest.get("spec", {})
    ]

    assert graces
    assert min(graces) > 30


# Health


def test_the_readiness_command_says_whether_clients_can_use_a_broker() -> None:
    with EmbeddedBroker() as broker:
        namesrv = broker.namesrv
        asked = ("cluster", "status", "--namesrv", namesrv)
        assert run_flintmq(*asked) == 0

        broker.stop_broker("broker-a")
        assert run_flintmq(*asked) in (1, 3)

    assert run_flintmq(*asked) == 3


# Security


def test_the_certificates_of_the_security_page_keep_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    page = (PAGES.parent / "security.md").read_text(encoding="utf-8")
    page = page.partition("## TLS with client certificates")[2]
    make, serve = re.findall(r"^```\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    subprocess.run(["sh", "-ec", make], capture_output=True, check=True)
    start, ask = (shlex.split(line)[1:] for line in serve.splitlines())
    listen = ("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE)
    with running(*start, *listen, "--data", "data") as server:
        at = ("--namesrv", server.namesrv)

        assert run_flintmq(*ask, *at) == 0
        assert run_flintmq("topic", "list", "--tls-ca", "ca.pem", *at) == 3
        assert run_flintmq("topic", "list", *at) == 3
        exec(compile(program.replace("127.0.0.1:9876", server.namesrv), "security.md", "exec"), {})
        assert server.stop() == 0

    assert "SEND_OK" in capsys.readouterr().out


# Logs


def code_texts() -> list[str]:
    """Every text in the code, f-strings and joined texts as one."""
    texts = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                values = (each for each in node.values if isinstance(each, ast.Constant))
                texts.append("…".join(str(each.value) for each in values))
    return texts


def test_every_line_of_the_logs_page_is_in_the_code() -> None:
    page = (PAGES / "logs.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    texts = code_texts()

    def parts(line: str) -> list[str]:
        return [part.strip() for part in line.split("…") if len(part.strip()) > 2]

    lost = [
        line
        for line in lines
        if not any(all(part in text for part in parts(line)) for text in texts)
    ]

    assert len(lines) > 20
    assert lost == []


def test_messages_that_the_troubleshooting_page_quotes_are_in_the_code() -> None:
    page = (PAGES / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `([a-z][a-z :,]+ [a-z ]+)` \|", page, re.MULTILINE)
    texts = code_texts()

    assert len(quoted) >= 3
    assert [line for line in quoted if not any(line in text for text in texts)] == []
