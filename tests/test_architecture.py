"""The house rules that a machine can check."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "flintmq"

LAYERS = [  # a package may import only from lines below its own
    {"cli"},
    {"console"},
    {"spark", "embedded", "otel"},
    {"proxy"},
    {"client", "broker", "nameserver"},
    {"arrow", "metrics", "reports"},
    {"net"},
    {"core", "store", "access"},
    {"protocol", "filter"},
    {"kernel"},
    {"model"},
    {"errors"},
    {"logs"},
    {"printable"},
]
RANK = {package: rank for rank, layer in enumerate(LAYERS) for package in layer}

IO_MODULES = {"asyncio", "threading", "socket", "selectors", "ssl", "time", "random", "queue"}
MAY_DO_IO = {
    "net",
    "arrow",
    "client",
    "spark",
    "cli",
    "console",
    "embedded",
    "broker/server.py",
    "broker/role_switch.py",
    "broker/upkeep/scrubbing.py",
    "broker/table_copy.py",
    "broker/table_saver.py",
    "broker/announcing.py",
    "broker/log_syncs.py",
    "broker/replication/ha_master.py",
    "broker/replication/ha_slave.py",
    "broker/listening.py",
    "metrics/client_metrics.py",
    "metrics/pages.py",
    "metrics/producer_counts.py",
    "metrics/pull_counts.py",
    "metrics/run_counts.py",
    "nameserver/server.py",
    "otel/telemetry.py",
    "proxy",
}
FILE_MODULES = {"mmap", "os", "fcntl", "shutil", "tempfile"}
MAY_TOUCH_FILES = {
    "cli",
    "embedded",
    "arrow/reading/access.py",
    "arrow/topic_tables.py",
    "kernel/choice.py",  # a variable of the environment
    "store/files/disk.py",
    "client/offsets/offset_file.py",
    "client/engine/lifecycle.py",
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
BANNED_BEGINNINGS = ("Abstract", "Default", "Base")
LINES_MAX = 400
FUNCTION_LINES_MAX = 70
SERVE_MODULES_MAX = 390
FOLDER_MODULES_MAX = 16  # more than that nobody reads as one subject

FOLDERS = {  # low to high: a folder or a root module imports only from lines before its own
    "arrow": [
        {"byte_spans", "reading", "schema"},
        {"bad_records", "message_tables", "page_rows", "property_columns"},
        {"column_makers"},
        {"plain_pages"},
        {"columns"},
        {"topic_tables"},
    ],
    "broker": [
        {"config", "requests"},
        {"counters", "limits", "stepping"},
        {"tables"},
        {"pops"},
        {"scheduled"},
        {"state"},
        {"send", "consume"},
        {"admin"},
        {"announcing", "engine_port", "failures", "table_copy", "table_saver", "upkeep"},
        {"parked_sends", "processor_table", "role_switch"},
        {"engine"},
        {"client_session", "guard", "log_syncs", "monitoring"},
        {"listening", "replication"},
        {"server"},
    ],
    "cli": [
        {"shared"},
        {"messages"},
        {
            "acl",
            "broker",
            "config_commands",
            "console",
            "demo",
            "dlq",
            "group",
            "message",
            "namesrv",
            "proxy",
            "tls",
        },
        {"brokers", "cluster"},
        {"load_app", "message_life", "run_spark", "store", "tail", "topic", "traffic"},
        {"send"},
        {"lake", "run", "serve"},
        {"main"},
        {"all_commands"},
    ],
    "client": [
        {"hooks", "stop_signals"},
        {"engine"},
        {"joining", "offsets", "popping", "producer"},
        {"push"},
        {"idempotence", "pull", "simple"},
        {"admin_methods", "member_processes"},
        {"run_app"},
        {"admin", "admin_aio"},
    ],
    "console": [
        {"static", "templates", "watching"},
        {"guard"},
        {"showing"},
        {"pages"},
        {"app"},
        {"serving"},
    ],
    "core": [
        {"account", "bad_record_rule", "conversation", "refusals"},
        {"routes"},
        {"ask"},
        {"reading", "replication"},
        {"group"},
        {"pop"},
        {"producer", "consumer"},
        {"admin", "pull"},
        {"promotion"},
    ],
    "kernel": [{"layout"}, {"checksum"}, {"python"}, {"choice"}, {"face"}],
    "net": [
        {
            "address",
            "backoff",
            "clock",
            "collector",
            "drive",
            "limits",
            "loop",
            "reasons",
            "receive_buffer",
        },
        {"http_get", "refusals"},
        {"side_by_side", "tls"},
        {"watched_tls"},
        {"channels", "blocking"},
        {"http2", "servers"},
    ],
    "protocol": [
        {"codes", "compression", "fastjson", "fields", "frame", "language", "remarks", "version"},
        {"http2", "replication"},
        {"body_limits", "command", "records"},
        {"header_binary", "header_json", "headers", "bodies", "signature"},
        {"pop", "wire"},
        {"connection", "typed_request"},
    ],
    "proxy": [
        {"server_settings", "wire"},
        {"tables"},
        {"calls", "monitoring"},
        {"caller_rights"},
        {"grpc_handlers"},
        {"server"},
    ],
    "spark": [
        {"environment"},
        {"options", "versions"},
        {"bodies", "sink"},
        {"source"},
        {"frames", "watching"},
        {"session", "outcomes"},
        {"tasks"},
        {"listeners"},
        {"pipelines"},
    ],
    "store": [
        {"files"},
        {"log", "index"},
        {"queues"},
        {"append_patterned", "record_lookup", "recovery", "scrub"},
        {"light_queues", "raw_columns"},
        {
            "batch_topics",
            "capacity",
            "check",
            "mending",
            "move_aside",
            "raw_log",
            "readonly",
            "retention",
            "sync_round",
        },
        {"message_log"},
    ],
}

LAYER_DEBTS: set[str] = set()
"""Files that break a rule.  The list may only get shorter."""

ASYNC_WITHOUT_AWAIT = {  # the list may only get shorter
    # An interface asks for a coroutine, and this side of it has nothing to wait for.
    "client/admin_aio.py: __aenter__",
    "net/servers/server.py: __aenter__",
    # It has to run on the loop, and the caller is on another thread.
    "client/engine/threaded_face.py: _call",
    "embedded/broker.py: on_the_loop",
    "net/servers/server.py: serve",
    # Public: callers await it already.
    "client/pull/lite_pull_consumer.py: status",
    "client/pull/pull_consumer.py: status",
    "client/push/push_consumer.py: pause",
    "client/push/push_consumer.py: queues",
    "client/push/push_consumer.py: resize_pool",
    "client/push/push_consumer.py: resume",
    "client/push/push_consumer.py: status",
}

FILES = sorted(SOURCE.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules_imported(module: str) -> set[str]:
    """Modules of ours that a module imports, anywhere in it and for a type checker too."""
    found = set()
    for name in imports(parsed(MODULES[module])):
        parent = name.rpartition(".")[0]
        found |= {name} & MODULES.keys() or {parent} & MODULES.keys()
    return found


def allowed(where: Path, places: set[str]) -> bool:
    return where.parts[0].removesuffix(".py") in places or where.as_posix() in places


def offences_of_a_file(path: Path) -> Iterator[str]:
    where = path.relative_to(SOURCE)
    package = where.parts[0].removesuffix(".py")
    tree = parsed(path)

    if not ast.get_docstring(tree):
        yield "does not say what it is for"
    if (lines := path.read_text(encoding="utf-8").count("\n")) > LINES_MAX:
        yield f"has {lines} lines"
    for name in imports(tree):
        if name.startswith("flintmq."):
            target = name.split(".")[1]
            known = target in RANK and package in RANK and target != package
            if known and RANK[package] >= RANK[target]:
                yield f"must not import {name}"
        top = name.split(".")[0]
        if top in IO_MODULES and not allowed(where, MAY_DO_IO):
            yield f"must stay free of {name}"
        if top in FILE_MODULES and not allowed(where, MAY_TOUCH_FILES):
            yield f"must not touch files: {name}"
    if path.name != "logs.py":
        yield from hidden_loggers(tree)


def hidden_loggers(tree: ast.Module) -> Iterator[str]:
    """Loggers not made by `flintmq.logs.logger`, which writes out what a peer could hide."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger":
            name = ast.unparse(node.args[0])
            if name == "__name__" or "flintmq." in name:
                yield f"line {node.lineno} must use flintmq.logs.logger"


def offences_of_names(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ClassDef):
            plain = node.name.lstrip("_")
            if plain.endswith(BANNED_ENDINGS) or plain.startswith(BANNED_BEGINNINGS):
                yield f"{node.name} is named after a pattern"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith(("get_", "set_")):
                yield f"{node.name} is a getter"
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name} has {lines} lines"


def own_nodes(function: ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """What a function does itself, without the functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def waits(function: ast.AsyncFunctionDef) -> bool:
    return any(
        isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith | ast.Yield)
        or (isinstance(node, ast.comprehension) and node.is_async)
        for node in own_nodes(function)
    )


def only_declared(function: ast.AsyncFunctionDef) -> bool:
    """A method of a protocol: a docstring or `...` and nothing else."""
    return all(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for node in function.body
    )


def test_every_file_obeys_the_house_rules() -> None:
    wrong = {
        f"{path.relative_to(SOURCE).as_posix()} {said}"
        for path in FILES
        for said in offences_of_a_file(path)
    }

    assert wrong == LAYER_DEBTS, "one that is gone leaves the list, a new one does not enter"


def test_names_and_sizes_are_for_people() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}: {said}" for path in FILES for said in offences_of_names(path)
    ]

    assert wrong == []


def test_every_package_has_its_place_in_the_layers() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    single_files = {"errors", "logs", "printable"}

    assert packages | single_files == set(RANK)


def test_no_folder_has_more_modules_than_a_subject_has() -> None:
    folders = {path.parent for path in FILES}
    sizes = {
        str(folder.relative_to(SOURCE)): len(list(folder.glob("[!_]*.py"))) for folder in folders
    }

    assert {name: size for name, size in sizes.items() if size > FOLDER_MODULES_MAX} == {}


def test_every_folder_and_root_module_has_its_place_in_its_package() -> None:
    with_folders = {path.parent.parent.name for path in SOURCE.glob("*/*/__init__.py")}
    there = {
        package: {
            path.stem
            for path in (SOURCE / package).iterdir()
            if path.stem != "__init__" and path.stem != "__pycache__"
        }
        for package in with_folders
    }

    assert {package: set[str]().union(*lines) for package, lines in FOLDERS.items()} == there


def test_folders_import_downwards_only() -> None:
    places = {
        f"flintmq.{package}.{place}": height
        for package, lines in FOLDERS.items()
        for height, line in enumerate(lines)
        for place in line
    }

    def place(module: str) -> str:
        return ".".join(module.split(".")[:3])

    wrong = [
        f"{module} must not import {target}"
        for module in MODULES
        for target in modules_imported(module)
        if place(module) in places
        and place(target) in places
        and place(module) != place(target)
        and module.split(".")[1] == target.split(".")[1]
        and places[place(module)] <= places[place(target)]
    ]

    assert wrong == []


def test_every_package_says_what_its_folders_are() -> None:
    unsaid = [
        f"{package.name}: {folder.parent.name}"
        for package in SOURCE.iterdir()
        for folder in package.glob("*/__init__.py")
        if folder.parent.name not in (ast.get_docstring(parsed(package / "__init__.py")) or "")
    ]

    assert unsaid == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Also not where only a type checker looks: who reads both would start with neither."""
    graph = {module: modules_imported(module) - {module} for module in MODULES}
    found = set()
    while True:
        try:
            TopologicalSorter(graph).prepare()
            break
        except CycleError as error:
            cycle: list[str] = error.args[1]
            found.add(frozenset(cycle))
            graph[cycle[1]].discard(cycle[0])

    assert found == set()


def test_a_function_is_async_because_it_awaits() -> None:
    found = {
        f"{path.relative_to(SOURCE).as_posix()}: {node.name}"
        for path in FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.AsyncFunctionDef) and not waits(node) and not only_declared(node)
    }

    assert found == ASYNC_WITHOUT_AWAIT, (
        "one that is gone leaves the list, a new one does not enter"
    )


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import flintmq, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = set(done.stdout.split())

    assert {name for name in loaded if name.startswith("flintmq.")} == set()
    assert not loaded & {"asyncio", "msgspec", "numpy", "lark", "pyspark"}


def test_a_broker_that_starts_loads_nothing_it_does_not_need() -> None:
    """Imports are nearly all of the time to start; a module of ours costs about a millisecond."""
    code = (
        "import sys, flintmq.embedded.servers; from flintmq.cli.main import make_app;"
        "make_app(['serve'], ['serve']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.startswith("flintmq.")}

    assert len(ours) <= SERVE_MODULES_MAX
    assert {name.split(".")[1] for name in ours}.isdisjoint(
        {"arrow", "console", "reports", "spark"}
    )
    assert loaded.isdisjoint({"grpc", "lark", "pyarrow", "pydantic", "rich", "yaml"})
