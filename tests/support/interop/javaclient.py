"""Released Java clients and mqadmin against the broker under test, each kind in one JVM.

    with JavaClient("5.3.3", namesrv, tmp_path) as client:
        seen = client.play("push")

    with MqAdmin("4.9.8", namesrv, tmp_path) as mqadmin:
        print(mqadmin("topicList"))

The scenarios are in ``java/play``; `Play.java` lists them.  A JVM serves many of them, because
starting one costs more than most scenarios.  Both sides speak lines: a request, then JSON.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.interop.jvm import ERRORS, JAVA_SOURCES, compile_java, jars, start_java
from support.interop.real import LOGBACK

OLD, NEW, NEWEST = "4.9.8", "5.3.3", "5.5.0"
END_TIMEOUT_S = 20.0
ERRORS_TAIL_BYTES = 8_000
JVM_FLAGS = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

FAST_CHANNEL = {"com.rocketmq.sendMessageWithVIPChannel": "true"}
"""What vipChannelEnabled of every client begins with."""

Event = dict[str, Any]

_prefixes = (f"p{number}_" for number in itertools.count())


class ScenarioFailed(Exception):
    """A scenario or a command did not come to its end."""


@dataclass(frozen=True, slots=True)
class Events:
    """What a client told, in its order."""

    prefix: str
    told: list[Event]

    def all(self, event: str) -> list[Event]:
        return [one for one in self.told if one["event"] == event]

    def one(self, event: str) -> Event:
        [found] = self.all(event)
        return found

    def bodies(self, event: str) -> list[str]:
        return [one["body"] for one in self.all(event)]


class _Jvm:
    """A class that answers lines with lines of JSON."""

    def __init__(
        self,
        main: str,
        args: list[str],
        version: str,
        directory: Path,
        props: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self.directory = directory
        self._command = (main, args)
        self._props = props or {}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        lib = jars(["tools"], self.version)
        shared = [JAVA_SOURCES / "Calls.java", JAVA_SOURCES / "Json.java"]
        classes = compile_java([*sorted((JAVA_SOURCES / "play").glob("*.java")), *shared], lib)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process = start_java(
            *self._command,
            [lib, classes],
            {
                "user.home": str(self.directory),
                "rocketmq.client.logRoot": str(self.directory / "logs"),
                "rocketmq.client.localOffsetStoreDir": str(self.directory / "offsets"),
                **self._props,
            },
            jvm_flags=JVM_FLAGS,
            reads_input=True,
            talks_in=self.directory,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        with self._process as process:
            try:
                process.communicate(timeout=END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise

    def say(self, line: str) -> None:
        assert self._process is not None, "use it as a context manager"
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # what follows tells why it ended
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def hear(self) -> Event:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ScenarioFailed(f"the JVM of {self.version} ended\n{self.errors()}")
        heard: Event = json.loads(line)
        return heard

    def errors(self) -> str:
        return (self.directory / ERRORS).read_bytes()[-ERRORS_TAIL_BYTES:].decode(errors="replace")


class JavaClient(_Jvm):
    """Producers, consumers and admins of one release.

    Consumers look for changes of their group and topics every second, unless ``patient``: then
    they do so every 20 s as they would by themselves, and see a change sooner only if told.
    ``fast`` ones use the fast port of brokers for what they may.
    """

    def __init__(
        self,
        version: str,
        namesrv: str,
        directory: Path,
        *,
        patient: bool = False,
        fast: bool = False,
    ) -> None:
        props = {} if patient else {"rocketmq.client.rebalance.waitInterval": "1000"}
        if fast:
            props |= FAST_CHANNEL
        super().__init__("Play", [namesrv], version, directory, props)

    def play(self, scenario: str, prefix: str | None = None) -> Events:
        """Play one scenario and return what was seen.

        Its names begin with the prefix; without one they are names nobody else uses.
        """
        prefix = prefix or next(_prefixes)
        self.say(f"{scenario} {prefix}")
        told = []
        while "end" not in (heard := self.hear()):
            told.append(heard)
        if "failure" in heard:
            story = "\n".join(map(str, told))
            raise ScenarioFailed(f"{scenario}\n{story}\n{heard['failure']}\n{self.errors()}")
        return Events(prefix, told)


class MqAdmin(_Jvm):
    """The command ``mqadmin`` of one release; called with a command and its arguments."""

    def __init__(self, version: str, namesrv: str, directory: Path, *, fast: bool = False) -> None:
        home = directory / "home"
        props = {"rocketmq.home.dir": str(home), **(FAST_CHANNEL if fast else {})}
        super().__init__("Tools", [], version, directory, props)
        self.namesrv = namesrv
        (home / "conf").mkdir(parents=True, exist_ok=True)
        (home / "conf" / "logback_tools.xml").write_text(LOGBACK)  # 4.9 demands one

    def __call__(self, command: str, *args: str) -> str:
        """What the command printed.  That it failed is only to be seen in there."""
        self.say("\t".join([command, "-n", self.namesrv, *args]))
        answer = self.hear()
        if answer["failure"] is not None:
            raise ScenarioFailed(f"{command}\n{answer['failure']}\n{answer['out']}")
        return str(answer["out"]) + str(answer["err"])
