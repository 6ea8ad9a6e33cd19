"""The codecs of a released RocketMQ client, asked over a pipe to one JVM.

    with WireJudge("5.3.3") as judge:
        judge.records(body)

`java/Judge.java` lists the questions.  Answers are plain JSON values; bytes come as hexadecimal.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from support.interop.jvm import JAVA_SOURCES, compile_java, jars, start_java

END_TIMEOUT_S = 10.0


class JudgeRefused(Exception):
    """The real code threw."""


class WireJudge:
    """One JVM with the jars of one release."""

    def __init__(self, version: str) -> None:
        self.version = version
        lib = jars(["client"], version)
        sources = [JAVA_SOURCES / "Judge.java", JAVA_SOURCES / "Json.java"]
        self._classpath = [lib, compile_java(sources, lib)]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = start_java("Judge", [], self._classpath, reads_input=True)
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

    def records(self, body: bytes) -> list[dict[str, Any]]:
        """The messages of a pull answer, every field of them."""
        found: list[dict[str, Any]] = self._ask("RECORDS", body.hex())
        return found

    def recode(self, record: bytes) -> bytes:
        """A record, read and written again by the client."""
        return bytes.fromhex(self._ask("RECODE", record.hex()))

    def command(self, frame: bytes) -> dict[str, Any]:
        fields: dict[str, Any] = self._ask("FRAME", frame.hex())
        return fields

    def frame(
        self, form: str, code: int, flag: int, opaque: int, remark: str, fields: Mapping[str, str]
    ) -> bytes:
        numbers = (str(code), str(flag), str(opaque))
        answer = self._ask("COMMAND", form, *numbers, _hex(remark), *_pairs(fields))
        return bytes.fromhex(answer)

    def batch(self, messages: Iterable[tuple[int, bytes, Mapping[str, str]]]) -> bytes:
        """The batch body of messages given as flag, body and properties."""
        described = (
            f"{flag}:{body.hex()}:{','.join(_pairs(properties))}"
            for flag, body, properties in messages
        )
        return bytes.fromhex(self._ask("BATCH", *described))

    def unbatch(self, body: bytes) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask("UNBATCH", body.hex())
        return found

    def properties(self, text: str) -> dict[str, str]:
        found: dict[str, str] = self._ask("PROPERTIES", _hex(text))
        return found

    def property_string(self, properties: Mapping[str, str]) -> str:
        return bytes.fromhex(self._ask("PROPERTY_STRING", *_pairs(properties))).decode()

    def offset_id(self, text: str) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("OFFSET_ID", text)
        return found

    def unique_id(self, text: str) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("UNIQUE_ID", text)
        return found

    def hash_code(self, text: str) -> int:
        return int(self._ask("HASH", _hex(text)))

    def crc(self, body: bytes) -> int:
        return int(self._ask("CRC", body.hex()))

    def _ask(self, verb: str, *arguments: str) -> Any:
        process = self._process
        assert process is not None, "use it as a context manager"
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(" ".join((verb, *arguments)) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            errors = process.stderr.read() if process.stderr is not None else ""
            raise RuntimeError(f"the judge of {self.version} ended\n{errors}")
        answer = json.loads(line)
        if isinstance(answer, dict) and answer.keys() == {"error"}:
            raise JudgeRefused(answer["error"])
        return answer


def _hex(text: str) -> str:
    return text.encode().hex()


def _pairs(properties: Mapping[str, str]) -> list[str]:
    return [f"{_hex(name)}={_hex(value)}" for name, value in properties.items()]
