"""The site has every page and every public name, builds without a warning, and loads nothing."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flintmq.errors

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
API = DOCS / "reference" / "api"
PACKAGES = ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers.python")
ELSEWHERE = re.compile(r"""(?:src|href)=["'](?:https?:)?//[^"']+["']""")
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*>")
BUILD_S = 300


def nav() -> list[str]:
    """The pages that mkdocs.yml lists."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    return re.findall(r": ([\w/.-]+\.md)$", text, re.MULTILINE)


def entries() -> set[str]:
    """The names that have an entry in the API reference."""
    pages = (page.read_text(encoding="utf-8") for page in API.glob("*.md"))
    return {name for page in pages for name in re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)}


def test_every_page_is_listed_once_in_the_navigation() -> None:
    pages = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))

    assert sorted(nav()) == pages


@pytest.mark.parametrize("package", ["flintmq", "flintmq.aio", "flintmq.arrow", "flintmq.spark"])
def test_every_public_name_has_an_entry_in_the_reference(package: str) -> None:
    module, known = importlib.import_module(package), entries()
    raised = {name for name in module.__all__ if hasattr(flintmq.errors, name)}

    lost = {f"{package}.{name}" for name in module.__all__ if name not in raised} - known
    lost |= {f"flintmq.errors.{name}" for name in raised} - known

    assert lost == set(), "add a line `::: name` for each to a page in docs/reference/api"


def test_every_error_has_an_entry_in_the_reference() -> None:
    there = {
        f"flintmq.errors.{name}"
        for name, kind in inspect.getmembers(flintmq.errors, inspect.isclass)
        if issubclass(kind, flintmq.errors.FlintError)
    }

    assert {name for name in entries() if name.startswith("flintmq.errors.")} == there


def test_every_fixture_has_an_entry_in_the_reference() -> None:
    plugin = "flintmq.embedded.pytest_plugin"
    source = inspect.getsource(importlib.import_module(plugin))
    fixtures = re.findall(r"@pytest\.fixture.*\ndef (\w+)", source)

    assert len(fixtures) >= 3
    assert {f"{plugin}.{name}" for name in fixtures} <= entries()


def test_the_reference_names_only_what_exists() -> None:
    for name in entries():
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in PACKAGES:
        pytest.importorskip(package, reason=f"{package} is not installed: see the extra site")
    built = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(built)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return built


@pytest.mark.timeout(BUILD_S)
def test_the_site_builds_without_a_warning(site: Path) -> None:
    assert {page.with_suffix(".md").name for page in site.rglob("*.html")} >= {
        Path(page).name for page in nav()
    }


@pytest.mark.timeout(BUILD_S)
def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loaded = {
        found
        for page in site.rglob("*.html")
        for element in LOADED.findall(page.read_text(encoding="utf-8"))
        if 'rel="canonical"' not in element
        for found in ELSEWHERE.findall(element)
    }

    assert loaded == set()


@pytest.mark.timeout(BUILD_S)
def test_the_search_finds_pages_without_a_server(site: Path) -> None:
    text = (site / "search" / "search_index.js").read_text(encoding="utf-8")

    index = json.loads(text.partition("=")[2])

    places = {each["location"] for each in index["docs"]}
    assert "reference/api/clients.html#flintmq.Producer.send" in places
    assert (site / "assets" / "iframe-worker.js").stat().st_size > 0


@pytest.mark.timeout(BUILD_S)
def test_methods_of_admin_are_shown_as_they_are_called(site: Path) -> None:
    page = (site / "reference" / "api" / "clients.html").read_text(encoding="utf-8")
    start = page.index('id="flintmq.Admin.lag"')

    shown = re.sub(r"<[^>]+>", "", page[start : start + 4_000])

    assert "group: str" in shown
    assert "GroupLag" in shown
    assert "namesrv" not in shown
