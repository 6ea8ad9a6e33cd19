"""Java, Maven and the released RocketMQ jars, for tests that ask the real code.

`jars` fetches, `compile_java` compiles, `start_java` and `run_java` run.  What is fetched and
compiled is kept under ``FLINTMQ_CACHE`` (default ``~/.cache/flintmq``).  Maven's own settings say
where jars come from; nothing here names a server.

Invariant: a directory in the cache is complete.  It is made under another name and renamed while
a file lock is held, so two test runs may start at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

JAVA_SOURCES = Path(__file__).parents[2] / "interop" / "java"

FETCH_TIMEOUT_S = 900  # a first fetch brings about a hundred jars
COMPILE_TIMEOUT_S = 120
RUN_TIMEOUT_S = 120

ERRORS = "errors.txt"  # where a class that talks writes its errors

# RocketMQ 4.9 reaches into these packages of the JDK; newer releases accept the same flags.
JAVA_FLAGS = (
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "-Dfile.encoding=UTF-8",
)


def missing_tools(*names: str) -> str | None:
    """Why tests that need these commands must be skipped, or None when all are there.

    ``java`` stands for a whole JDK: the compiler is looked for too.
    """
    wanted = [*names, *(["javac"] if "java" in names else [])]
    absent = [name for name in wanted if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


def cache_directory() -> Path:
    chosen = os.environ.get("FLINTMQ_CACHE")
    return Path(chosen).absolute() if chosen else Path.home() / ".cache" / "flintmq"


def jars(artifacts: Sequence[str], version: str) -> Path:
    """The directory with these org.apache.rocketmq artifacts and all they need.

    Names may leave the common prefix out: ``client`` is ``rocketmq-client``.
    """
    names = sorted({artifact.removeprefix("rocketmq-") for artifact in artifacts})
    wanted = [("org.apache.rocketmq", f"rocketmq-{name}", version) for name in names]
    return fetched(f"{version}/{'+'.join(names)}", wanted)


def fetched(name: str, wanted: Sequence[tuple[str, str, str]]) -> Path:
    """The directory with these artifacts (group, name, version) and all they need."""

    def fetch(made: Path) -> None:
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId>"
            f"<artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
            for group, artifact, version in wanted
        )
        with tempfile.TemporaryDirectory() as work:
            Path(work, "pom.xml").write_text(
                "<project><modelVersion>4.0.0</modelVersion><groupId>flintmq.tests</groupId>"
                "<artifactId>jars</artifactId><version>1</version>"
                f"<dependencies>{dependencies}</dependencies></project>"
            )
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={made}"]
            run_tool(["mvn", "-q", "-B", *goal], FETCH_TIMEOUT_S, work)

    return make_once(f"jars/{name}", fetch)


def compile_java(sources: Sequence[Path], classpath: Path | Sequence[Path]) -> Path:
    """Compile the sources; return the directory of the classes.

    Unchanged sources on an unchanged class path are compiled once.
    """
    entries = class_path(classpath)
    digest = hashlib.sha256(entries.encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())

    def compile_into(made: Path) -> None:
        options = ["-encoding", "UTF-8", "-Xlint:none", "-proc:none", "-d", str(made)]
        files = [str(source) for source in sources]
        run_tool(["javac", *options, "-cp", entries, *files], COMPILE_TIMEOUT_S)

    return make_once(f"classes/{digest.hexdigest()[:24]}", compile_into)


def class_path(entries: Path | Sequence[Path]) -> str:
    """Java's spelling of directories of jars and directories of classes."""
    paths = [entries] if isinstance(entries, Path) else entries
    spelled = [str(path / "*") if any(path.glob("*.jar")) else str(path) for path in paths]
    return os.pathsep.join(spelled)


def start_java(
    main: str,
    args: Sequence[str],
    classpath: Path | Sequence[Path],
    props: Mapping[str, str] | None = None,
    *,
    jvm_flags: Sequence[str] = (),
    reads_input: bool = False,
    output: Path | None = None,
    talks_in: Path | None = None,
) -> subprocess.Popen[str]:
    """Start a class.  Its output goes to the file ``output``, or to pipes.

    ``talks_in`` is the working directory of a class that answers lines for a long time: its
    standard error goes to a file there, because an unread pipe would fill up.

    The JVM ends when this process does, however that happens, because its standard input ends
    then.  A class that reads its input must see to that itself (``reads_input``); every other
    class is run by `Leash`.
    """
    paths = [classpath] if isinstance(classpath, Path) else list(classpath)
    start = [main]
    if not reads_input:
        paths.append(compile_java([JAVA_SOURCES / "Leash.java"], []))
        start = ["Leash", main]
    home = cache_directory() / "home"
    home.mkdir(parents=True, exist_ok=True)
    settings = {"user.home": str(home), "rocketmq.client.logRoot": str(home / "logs")}
    settings |= props or {}
    command = [
        *("java", *JAVA_FLAGS, *jvm_flags),
        *(f"-D{name}={value}" for name, value in settings.items()),
        *("-cp", class_path(paths), *start, *args),
    ]
    env = {name: value for name, value in os.environ.items() if name != "NAMESRV_ADDR"}
    pipe = subprocess.PIPE
    if talks_in is not None:
        with (talks_in / ERRORS).open("ab") as file:
            return subprocess.Popen(
                command, cwd=talks_in, env=env, stdin=pipe, stdout=pipe, stderr=file, text=True
            )
    if output is None:
        return subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    with output.open("ab") as file:
        return subprocess.Popen(
            command, env=env, stdin=pipe, stdout=file, stderr=subprocess.STDOUT, text=True
        )


def run_java(
    main: str,
    args: Sequence[str],
    classpath: Path | Sequence[Path],
    props: Mapping[str, str] | None = None,
    *,
    jvm_flags: Sequence[str] = (),
    timeout_s: float = RUN_TIMEOUT_S,
) -> str:
    """Run a class to its end and return what it printed.  Any other end than 0 is an error."""
    with start_java(main, args, classpath, props, jvm_flags=jvm_flags) as process:
        # communicate() would close the input first, and the leash would end the JVM.
        held, process.stdin = process.stdin, None
        assert held is not None
        with held:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except BaseException:
                process.kill()
                out, err = process.communicate()
                print(f"{main} was killed\n{out}\n{err}")
                raise
    if process.returncode != 0:
        raise RuntimeError(f"{main} ended with {process.returncode}\n{out}\n{err}")
    return out


def make_once(name: str, make: Callable[[Path], None]) -> Path:
    """A directory of the cache, made by ``make`` the first time it is asked for."""
    made = cache_directory() / name
    if made.is_dir():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    with made.with_name(made.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.is_dir():
            unfinished = Path(tempfile.mkdtemp(prefix=made.name + ".", dir=made.parent))
            try:
                make(unfinished)
                unfinished.rename(made)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
    return made


def run_tool(command: Sequence[str], timeout_s: float, directory: str | None = None) -> str:
    """Run a build tool; its output is returned, or told in the error."""
    done = subprocess.run(
        command,
        cwd=directory,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}\n{done.stdout}")
    return done.stdout
