"""What README and docs say can be done, can be done."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cli_reference
from flintmq.embedded.broker import EmbeddedBroker

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "flintmq"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))


def python_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    names = re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)  # entries of the API reference
    slugs = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)
    return {*slugs, *names}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_heading_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8"))

    lost = [
        f"{link}#{anchor}"
        for link, anchor in links
        if anchor not in anchors(page.parent / link if link else page)
    ]

    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    shown = subprocess.run(
        ["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True
    )
    targets = set(re.findall(r"make ([a-z-]+)", shown.stdout))

    named = set(re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8")))

    assert named <= targets


def locked(name: str) -> set[str]:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    return set(re.findall(r"^([\w.-]+==\S+)", text, re.MULTILINE))


def test_the_demo_installs_a_part_of_what_developers_use_in_the_same_versions() -> None:
    demo, everything = locked("demo.lock"), locked("dev.lock")

    assert demo < everything
    assert not any(
        each.startswith(("mypy==", "ruff==", "hypothesis==", "pytest==")) for each in demo
    )


@pytest.mark.parametrize("name", ["demo.lock", "dev.lock"])
def test_a_lock_file_has_a_hash_for_each_package_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")

    assert "://" not in text
    packages = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
    assert [each for each in packages if "--hash=sha256:" not in each] == []


def test_the_reference_of_the_command_line_is_what_the_commands_say() -> None:
    page = cli_reference.PAGE.read_text(encoding="utf-8")

    assert page == cli_reference.write(), "write it again: python tools/cli_reference.py"


def test_the_app_of_the_testing_page_is_tested_as_it_says(tmp_path: Path) -> None:
    app, tests, *_ = python_blocks((ROOT / "docs" / "testing.md").read_text(encoding="utf-8"))
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


def test_the_faults_and_rights_of_the_testing_page_happen() -> None:
    _, _, *programs = python_blocks((ROOT / "docs" / "testing.md").read_text(encoding="utf-8"))

    assert len(programs) == 2
    for program in programs:
        exec(compile(program, "testing.md", "exec"), {})


def test_the_testing_page_names_all_that_a_broker_for_tests_can_do() -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    public = {name for name in dir(EmbeddedBroker) if not name.startswith("_")}

    named = set(re.findall(r"`(\w+)(?=[(`])", page))

    assert public - named == {"call", "start", "stop"}


def test_the_architecture_page_lists_the_packages_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    layers = page.partition("## Layers")[2].partition("## ")[0]
    there = {
        path.stem if path.is_file() else path.name
        for path in SOURCE.iterdir()
        if not path.name.startswith("_") and path.suffix in ("", ".py")
    }

    drawing = layers.split("```")[1].splitlines()
    drawn = {word for line in drawing for word in re.findall(r"\w+", line.strip().split("   ")[0])}
    jobs = [line.split("|")[1] for line in layers.splitlines() if line.startswith("| `")]
    listed = set(re.findall(r"`(\w+)`", "".join(jobs)))

    assert drawn == there
    assert listed == there - {"aio"}


def names_in(path: Path) -> set[str]:
    """What a module defines: functions, classes, constants, and `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            methods = (each.name for each in node.body if isinstance(each, ast.FunctionDef))
            found |= {node.name, *(f"{node.name}.{name}" for name in methods)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def test_what_the_architecture_page_says_where_to_find_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [A-Z][^|]*\? \| `([\w/]+\.py)` \|(.*)\|$", text, re.MULTILINE)

    lost = [path for path, _ in rows if not (SOURCE / path).is_file()]
    wrong = [
        f"{path}: {name}"
        for path, names in rows
        for name in re.findall(r"`([\w.]+)`", names)
        if path not in lost and name not in names_in(SOURCE / path)
    ]

    assert lost == []
    assert wrong == []
    assert len(rows) == text.count("? |") >= 40


def test_the_glossary_has_words_that_the_code_uses() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    _, theirs, ours = re.split(r"^## .*$", page, flags=re.MULTILINE)
    code = " ".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")).lower()
    used = set(re.findall(r"[a-z]+", code.replace("_", " ")))

    for table in (theirs, ours):
        words = re.findall(r"^\| \*\*(.+?)\*\*", table, re.MULTILINE)
        assert words == sorted(set(words), key=str.lower)
    own = re.findall(r"^\| \*\*(.+?)\*\*", ours, re.MULTILINE)
    assert {word for word in re.findall(r"\w+", " ".join(own)) if word not in used} == set()


def is_there(name: str) -> bool:
    """Whether a dotted name is a module of ours, or something public in one."""
    path = SOURCE.parent.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module, _, last = name.rpartition(".")
    found = importlib.import_module(module)
    return last in getattr(found, "__all__", vars(found))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_of_ours_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:[a-z_]+/)+\w+\.(?:py|md))\b", text))
    modules = set(re.findall(r"\b(flintmq(?:\.[a-z_]+)+)\b(?![(/])", text))
    roots = (ROOT, SOURCE, ROOT / "tests", page.parent)

    lost = {path for path in paths if not any((root / path).exists() for root in roots)}
    lost |= {module for module in modules if not is_there(module)}

    assert lost == set()
