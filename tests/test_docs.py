"""What README and docs say can be done, can be done."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import cli_reference
from flintmq.embedded.broker import EmbeddedBroker

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))


def python_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    shown = subprocess.run(
        ["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True
    )
    targets = set(re.findall(r"make ([a-z-]+)", shown.stdout))

    named = set(re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8")))

    assert named <= targets


def test_the_reference_of_the_command_line_is_what_the_commands_say() -> None:
    page = cli_reference.PAGE.read_text(encoding="utf-8")

    assert page == cli_reference.write(), "write it again: python tools/cli_reference.py"


def test_the_app_of_the_testing_page_is_tested_as_it_says(tmp_path: Path) -> None:
    app, tests, _ = python_blocks((ROOT / "docs" / "testing.md").read_text(encoding="utf-8"))
    (tmp_path / "shop.py").write_text(app, encoding="utf-8")
    (tmp_path / "test_shop.py").write_text(tests, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "flintmq.embedded.pytest_plugin", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "5 passed" in done.stdout, done.stdout
    assert done.returncode == 0


def test_the_faults_of_the_testing_page_happen() -> None:
    _, _, faults = python_blocks((ROOT / "docs" / "testing.md").read_text(encoding="utf-8"))

    exec(compile(faults, "testing.md", "exec"), {})


def test_the_testing_page_names_all_that_a_broker_for_tests_can_do() -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    public = {name for name in dir(EmbeddedBroker) if not name.startswith("_")}

    named = set(re.findall(r"`(\w+)(?=[(`])", page))

    assert public - named == {"call", "start", "stop"}


def test_the_architecture_page_ticks_the_packages_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

    ticked = set(re.findall(r"(\w+) ✓", text))

    assert ticked == {
        path.stem if path.is_file() else path.name
        for path in (ROOT / "src" / "flintmq").iterdir()
        if not path.name.startswith("_") and path.suffix in ("", ".py")
    }
