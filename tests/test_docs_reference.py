"""The guides and references say what the code says, and their code is code that works."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import flintmq
import reference_pages
import reference_settings as texts
from flintmq import EmbeddedBroker, Message
from flintmq.broker.config.config_file import SETTINGS
from flintmq.nameserver import config as nameserver
from reference_errors import ERRORS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAME_SERVER = "127.0.0.1:9876"

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
DIAGRAM = re.compile(r"<!-- (flintmq\.[\w.]+) -->\n```\n(.*?)```", re.DOTALL)


def blocks(page: str) -> list[str]:
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def block_with(page: str, text: str) -> str:
    """The one block of a page that has this in it."""
    (found,) = (block for block in blocks(page) if text in block)
    return found


def run_block(block: str, broker: EmbeddedBroker) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block.replace(NAME_SERVER, broker.namesrv), "docs", "exec"), names)
    return names


# References


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_a_reference_is_what_the_code_says(name: str) -> None:
    page = (reference_pages.REFERENCE / name).read_text(encoding="utf-8")

    assert page == reference_pages.PAGES[name](), "write it: tools/reference_pages.py --write"


@pytest.mark.parametrize(
    ("told", "known"),
    [
        (texts.CLIENT, reference_pages.KINDS["client"]),
        (texts.PRODUCER, reference_pages.KINDS["producer"]),
        (texts.PUSH, reference_pages.KINDS["push"]),
        (texts.PULL, reference_pages.KINDS["pull"]),
        (texts.LITE, reference_pages.KINDS["lite"]),
        (texts.SCHEDULED, reference_pages.KINDS["scheduled"]),
        (texts.BROKER, SETTINGS),
        (texts.NAME_SERVER, nameserver.SETTINGS),
        (ERRORS, reference_pages.error_classes()),
    ],
    ids=["client", "producer", "push", "pull", "lite", "scheduled", "broker", "namesrv", "errors"],
)
def test_what_is_told_is_all_there_is(
    told: Mapping[str, object], known: Mapping[str, object]
) -> None:
    assert set(told) == set(known)


# Code and diagrams


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_every_page_is_python(page: Path) -> None:
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        compile(block, str(page), "exec")


@pytest.mark.parametrize("page", ["docs/consumer.md", "docs/spark.md"])
def test_a_diagram_is_that_of_its_module(page: str) -> None:
    found = DIAGRAM.findall((ROOT / page).read_text(encoding="utf-8"))

    for module, diagram in found:
        said = dedent(importlib.import_module(module).__doc__ or "")
        shown = [line.strip() for line in diagram.splitlines()]
        lines = [line.strip() for line in said.splitlines()]
        start = lines.index(shown[0])
        assert lines[start : start + len(shown)] == shown, module

    assert len(found) >= 2


def test_the_first_send_of_the_readme_is_stored(capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedBroker() as broker:
        run_block(block_with("README.md", "receipt = "), broker)

        (message,) = broker.messages("orders")

    assert (message.body, message.tags, message.keys) == (b"o-1", "paid", ("o-1",))
    assert "stored in orders/broker-a/" in capsys.readouterr().out


@pytest.mark.parametrize("page", ["README.md", "docs/consumer.md"])
def test_the_listener_of_a_page_consumes_and_buries(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with EmbeddedBroker() as broker:
        app = run_block(block_with(page, "@app.listener"), broker)["app"]
        with broker.producer("shop") as producer:
            for body in (b"o-1", b"nonsense"):
                producer.send(Message("orders", body, tags="paid"))

        with broker.running(app):
            broker.wait_for(lambda: broker.messages("%DLQ%billing"))
            broker.wait_for(lambda: "o-1" in capsys.readouterr().out)

        assert [each.body for each in broker.messages("%DLQ%billing")] == [b"nonsense"]


def test_the_test_of_the_readme_passes(tmp_path: Path) -> None:
    (tmp_path / "test_readme.py").write_text(block_with("README.md", "flintmq_broker"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "flintmq.embedded.pytest_plugin", "."]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "1 passed" in done.stdout, done.stdout + done.stderr


# Old call, new call


def new_calls() -> list[str]:
    """What stands in the last column of the tables, between backticks."""
    page = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    rows = [re.split(r"(?<!\\)\|", line) for line in page.splitlines() if line.startswith("| ")]
    return [call.replace("\\|", "|") for row in rows for call in re.findall("`([^`]+)`", row[-2])]


def test_every_new_call_is_python_or_a_command() -> None:
    for call in new_calls():
        if not call.startswith(("flintmq ", "@", "async for")):
            compile(call, "coming-from.md", "exec")


def test_every_new_call_names_something_that_exists() -> None:
    clients = {
        "producer": (flintmq.TransactionProducer,),
        "consumer": (
            flintmq.PushConsumer,
            flintmq.LitePullConsumer,
            flintmq.PullConsumer,
            flintmq.SimpleConsumer,
        ),
        "admin": (flintmq.Admin,),
        "message": (flintmq.ReceivedMessage,),
        "receipt": (flintmq.SendReceipt,),
    }
    seen = 0

    for call in new_calls():
        for owner, name in re.findall(r"(\w+)\.(\w+)", call):
            if owner in clients:
                seen += 1
                assert any(hasattr(kind, name) for kind in clients[owner]), call
        for name in re.findall(r"\b([A-Z]\w+)\(", call):
            assert hasattr(flintmq, name), call

    assert seen > 40


def test_every_setting_of_a_new_call_exists() -> None:
    kinds = reference_pages.KINDS
    made_of = {
        "Producer": ("client", "producer"),
        "TransactionProducer": ("client", "producer"),
        "PushConsumer": ("client", "push"),
        "LitePullConsumer": ("client", "pull", "lite"),
        "ScheduledPull": ("client", "pull", "scheduled"),
        "SimpleConsumer": ("client", "simple"),
    }

    for call in new_calls():
        for kind, arguments in re.findall(r"\b([A-Z]\w+)\(([^)]*)\)", call):
            if kind in made_of:
                known = set[str]().union(*(kinds[name] for name in made_of[kind]))
                assert set(re.findall(r"(\w+)=", arguments)) <= known, call
