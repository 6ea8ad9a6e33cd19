"""The code of the guides runs as it stands there, and every page with code is run by a test."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from flintmq import EmbeddedBroker
from flintmq.cli.all_commands import app as command_line

ROOT = Path(__file__).parents[1]
NAME_SERVER = "127.0.0.1:9876"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
CALL = re.compile(r"(?:\$ |.* -- |[\w./]*/)?flintmq ((?!ready )(?:-|[a-z]).*)")
PLAIN = re.compile(r"^```(?:bash|sh|console)?\n(.*?)^```", re.DOTALL | re.MULTILINE)

SHOWN = {
    "guides/producer.md": ["100 stored\n", "100 stored in 1 queue", "\n1 queue"],
    "guides/pull.md": ["100 messages", "True\nTrue"],
    "guides/lite-pull.md": ["100 messages", "100 committed", "100 read again"],
    "guides/scheduled-pull.md": ["100 messages"],
    "guides/transactions.md": ["b'p-1' COMMIT", "b'p-2' ROLLBACK", "[b'p-1']"],
    "guides/request-reply.md": ["b'42'", "nobody replied: 500 ms"],
    "guides/admin.md": ["10 messages", "0 messages behind", "b'o-7'", "V5_3_3 10"],
    "metrics.md": ["flintmq_client_sent_messages_total{", 'topic="orders"'],
    "operations.md": ["127.0.0.1:"],
    "guides/grpc.md": ["127.0.0.1"],
    "guides/asyncio.md": ["100 stored", "100 seen", "100 billed"],
}
"""Pages whose blocks run one after the other, as one program; what it prints."""

NEEDED = {
    "fastapi": "fastapi",
    "flintmq.otel": "opentelemetry",
    "grpc=True": "grpc",
    "flintmq.metrics": "prometheus_client",
}
"""What code of a page imports, and the module that has to be installed for it."""

ELSEWHERE = {
    "consumer.md": "test_docs_reference.py",
    "security.md": "test_production.py",
    "python.md": "scenarios/client/test_python_guide.py",
    "quickstart.md": "test_guides.py",
    "spark.md": "scenarios/spark/test_guide.py",
    "testing.md": "test_docs.py",
}
"""Pages whose code another test runs."""


def blocks(page: str) -> list[str]:
    return BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


def run(page: str, code: list[str], broker: EmbeddedBroker) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    for block in code:
        exec(compile(block.replace(NAME_SERVER, broker.namesrv), page, "exec"), names)
    return names


@pytest.mark.parametrize("page", SHOWN)
def test_a_guide_runs_from_its_first_line_to_its_last(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for imported, module in NEEDED.items():
        if imported in "".join(blocks(page)):
            pytest.importorskip(module, reason=f"{module} is not installed")
    with EmbeddedBroker() as broker:
        run(page, blocks(page), broker)

    shown = capsys.readouterr().out
    assert [each for each in SHOWN[page] if each not in shown] == [], shown


def test_the_quick_start_sends_and_consumes(capsys: pytest.CaptureFixture[str]) -> None:
    send, consume, _ = blocks("quickstart.md")
    with EmbeddedBroker() as broker:
        run("quickstart.md", [send], broker)
        app = run("quickstart.md", [consume], broker)["app"]
        sent = capsys.readouterr().out
        with broker.running(app):
            broker.wait_for(lambda: "billed ('o-1',) o-1" in capsys.readouterr().out)

    assert "SEND_OK orders/broker-a/" in sent


def test_the_test_of_the_quick_start_passes(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(blocks("quickstart.md")[-1], encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "flintmq.embedded.pytest_plugin", "."]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_every_page_with_code_is_run_by_a_test() -> None:
    pages = {
        str(page.relative_to(ROOT / "docs"))
        for page in (ROOT / "docs").rglob("*.md")
        if BLOCK.search(page.read_text(encoding="utf-8"))
    }

    assert pages == SHOWN.keys() | ELSEWHERE.keys()
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / "tests" / test).read_text(encoding="utf-8")


def commands_of(page: Path) -> list[str]:
    """The lines that call `flintmq`, in blocks without a language and between backticks."""
    text = page.read_text(encoding="utf-8")
    lines = [line for block in PLAIN.findall(text) for line in block.splitlines()]
    lines += re.findall(
        r"`(flintmq [a-z][^`\n]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    )
    found = (CALL.match(line.strip()) for line in lines)
    return [re.split(r"   |[>;|]", each[1])[0] for each in found if each]


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    root = typer.main.get_command(command_line)
    wrong = []
    for line in commands_of(page):
        known: Any = root
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            wrong.append(line)
            continue
        while words and getattr(known, "commands", None) and words[0] in known.commands:
            known = known.commands[words.pop(0)]
        options = {name for each in known.params for name in (*each.opts, *each.secondary_opts)}
        used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        if known is root or used - options - {"--help"}:
            wrong.append(line)

    assert wrong == []
