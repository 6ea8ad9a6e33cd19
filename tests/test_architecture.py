"""The house rules that a machine can check."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "flintmq"

LAYERS = [  # a package may import only from lines below its own
    {"cli"},
    {"console", "spark", "embedded", "sim"},
    {"client", "broker", "nameserver"},
    {"net"},
    {"core", "store"},
    {"protocol", "filter"},
    {"model"},
    {"errors"},
    {"logs"},
    {"printable"},
]
RANK = {package: rank for rank, layer in enumerate(LAYERS) for package in layer}

IO_MODULES = {"asyncio", "threading", "socket", "selectors", "ssl", "time", "random", "queue"}
MAY_DO_IO = {
    "net",
    "client",
    "spark",
    "cli",
    "console",
    "embedded",
    "sim",
    "broker/server.py",
    "broker/table_saver.py",
    "broker/announcing.py",
    "broker/listening.py",
    "nameserver/server.py",
}
FILE_MODULES = {"mmap", "os", "fcntl", "shutil", "tempfile"}
MAY_TOUCH_FILES = {
    "cli",
    "embedded",
    "store/files/disk.py",
    "client/offsets/offset_file.py",
    "client/engine/fork.py",
    "client/engine/client_config.py",
    "spark",
}
BANNED_ENDINGS = (
    "Impl",
    "Manager",
    "Service",
    "Helper",
    "Util",
    "Utils",
    "Wrapper",
    "Info",
    "Data",
    "Holder",
    "Controller",
    "Factory",
)
LINES_MAX = 400
FUNCTION_LINES_MAX = 70

FILES = sorted(SOURCE.rglob("*.py"))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def allowed(where: Path, places: set[str]) -> bool:
    return where.parts[0].removesuffix(".py") in places or where.as_posix() in places


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_file_obeys_the_house_rules(path: Path) -> None:
    where = path.relative_to(SOURCE)
    package = where.parts[0].removesuffix(".py")
    tree = parsed(path)

    assert ast.get_docstring(tree), f"{where} does not say what it is for"
    assert path.read_text(encoding="utf-8").count("\n") <= LINES_MAX, f"{where} is too long"

    for name in imports(tree):
        if name.startswith("flintmq."):
            target = name.split(".")[1]
            if target in RANK and package in RANK and target != package:
                assert RANK[package] < RANK[target], f"{where} must not import {name}"
        top = name.split(".")[0]
        if top in IO_MODULES:
            assert allowed(where, MAY_DO_IO), f"{where} must stay free of {name}"
        if top in FILE_MODULES:
            assert allowed(where, MAY_TOUCH_FILES), f"{where} must not touch files: {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_names_and_sizes_are_for_people(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ClassDef):
            assert not node.name.endswith(BANNED_ENDINGS), f"{node.name} is named after a pattern"
            assert not node.name.lstrip("_").startswith(("Abstract", "Default", "Base")), node.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert not node.name.startswith(("get_", "set_")), f"{node.name} is a getter"
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_what_is_logged_of_others_can_be_seen(path: Path) -> None:
    """Modules log through `flintmq.logs.logger`, which writes out what a peer could hide."""
    if path.name == "logs.py":
        return
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger":
            (name,) = node.args
            ours = ast.unparse(name) == "__name__" or "flintmq." in ast.unparse(name)
            assert not ours, f"{path.name}:{node.lineno} must use flintmq.logs.logger"


def test_every_package_has_its_place_in_the_layers() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}

    assert packages <= RANK.keys()


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import flintmq, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = set(done.stdout.split())

    assert {name for name in loaded if name.startswith("flintmq.")} == set()
    assert not loaded & {"asyncio", "msgspec", "numpy", "lark", "pyspark"}
