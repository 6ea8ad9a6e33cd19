"""A real Kafka, and a Spark that can read it: what the comparison of the two sources needs.

Kafka and the jars of Spark's Kafka source are fetched with Maven, the Spark of the same release
with pip, each once, into the cache (``FLINTMQ_CACHE``).  Where both come from is what Maven and
pip are set to on this machine.

The jars of the source exist up to one release of Spark and no further, so both sides run on that
release, in an environment of its own; this project is found there by its path.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchmarks.peers.sides import ROOT, Running
from flintmq.kernel.choice import MODULE
from support.interop.jvm import make_once, run_java, run_tool, start_java

SPARK_VERSION = "4.2.0"
KAFKA_VERSION = "4.1.2"

SOURCE_JARS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",  # no newer one is to be had
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
"""All that Spark's own jars lack.  The second and the last are not on the way of a row."""

SAME_AS_HERE = ("lark", "lz4", "msgspec", "numpy", "pyarrow", "rich", "typer", "uvloop")
"""Packages of which both environments have the same release."""

FETCH_TIMEOUT_S = 1_800
READY_TIMEOUT_S = 120

_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"  # any 16 bytes in base 64

_ALL = "<groupId>*</groupId><artifactId>*</artifactId>"

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def spark_python() -> Path:
    """A Python with the Spark that both sides run on; made when it is first asked for."""
    same = [f"{name}=={version(name)}" for name in SAME_AS_HERE]

    def install(made: Path) -> None:
        run_tool([sys.executable, "-m", "venv", str(made)], FETCH_TIMEOUT_S)
        pip = [str(made / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        wanted = [f"pyspark=={SPARK_VERSION}", "pandas<3", *same]
        run_tool([*pip, *wanted], FETCH_TIMEOUT_S)

    # Older than 3: this Spark warns of newer ones.  It is there for ``mapInArrow`` alone.
    made = make_once(
        f"spark/{SPARK_VERSION}-py{sys.version_info[0]}.{sys.version_info[1]}", install
    )
    return made / "bin" / "python"


def compiled_kernel() -> list[Path]:
    """A folder with the compiled kernel of this environment and nothing else, if it is built."""
    found = find_spec(MODULE)
    if found is None or found.origin is None:
        return []
    package = Path(found.origin).parent
    newest = max(path.stat().st_mtime_ns for path in package.iterdir())

    def copy(made: Path) -> None:
        shutil.copytree(package, made / MODULE)

    return [make_once(f"kernel/{newest:x}", copy)]


def source_jars() -> Path:
    return _fetched(f"jars/spark-kafka-{SPARK_VERSION}", SOURCE_JARS, alone=True)


def kafka_jars() -> Path:
    jar = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
    return _fetched(f"jars/kafka-{KAFKA_VERSION}", [jar], alone=False)


def _fetched(name: str, coordinates: Sequence[str], *, alone: bool) -> Path:
    """Jars from Maven: these alone, or with all they need."""
    tags = ("groupId", "artifactId", "version")

    def fetch(made: Path) -> None:
        dependencies = ""
        for text in coordinates:
            parts = zip(tags, text.split(":"), strict=True)
            inner = "".join(f"<{tag}>{part}</{tag}>" for tag, part in parts)
            if alone:  # also so that Maven does not look for what is not there
                inner += f"<exclusions><exclusion>{_ALL}</exclusion></exclusions>"
            dependencies += f"<dependency>{inner}</dependency>"
        with tempfile.TemporaryDirectory() as work:
            Path(work, "pom.xml").write_text(
                "<project><modelVersion>4.0.0</modelVersion><groupId>flintmq.benchmarks</groupId>"
                "<artifactId>jars</artifactId><version>1</version>"
                f"<dependencies>{dependencies}</dependencies></project>"
            )
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={made}"]
            run_tool(["mvn", "-q", "-B", *goal], FETCH_TIMEOUT_S, work)

    return make_once(name, fetch)


@contextmanager
def kafka_side(directory: Path) -> Iterator[Running]:
    """One Kafka that is broker and controller, with its defaults; ``namesrv`` is its address."""
    directory.mkdir(parents=True)
    port, controller = _free_port(), _free_port()
    settings = directory / "server.properties"
    data = directory / "data"
    settings.write_text(_SETTINGS.format(port=port, controller=controller, data=data))
    lib = kafka_jars()
    format_args = ["format", "--cluster-id", _CLUSTER_ID, "--config", str(settings)]
    run_java("kafka.tools.StorageTool", format_args, lib)
    started = time.monotonic()
    log = directory / "kafka.txt"
    process = start_java(
        "kafka.Kafka", [str(settings)], lib, jvm_flags=("-Xms1g", "-Xmx1g"), output=log
    )
    try:
        _wait_for_port(port, process, log)
        ready_s = time.monotonic() - started
        yield Running(f"Kafka {KAFKA_VERSION}", f"127.0.0.1:{port}", process.pid, ready_s)
    finally:
        process.kill()  # what it holds is thrown away
        process.wait(30)


def load_environment() -> dict[str, str]:
    """The environment of a process that runs our code on the other Spark."""
    env = {n: v for n, v in os.environ.items() if n not in ("NAMESRV_ADDR", "SPARK_HOME")}
    paths = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT), *map(str, compiled_kernel())]
    return {**env, "PYTHONPATH": os.pathsep.join(paths)}


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _wait_for_port(port: int, process: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"Kafka did not start:\n{log.read_text()[-2000:]}")
