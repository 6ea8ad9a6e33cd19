"""The filters of a released RocketMQ, asked many questions in one run of a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.interop.jvm import JAVA_SOURCES, compile_java, jars, start_java

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

JUDGE_TIMEOUT_S = 300


def ask_judge(version: str, questions: Iterable[str]) -> list[str]:
    """One answer for each question; `FilterJudge.java` says what both look like."""
    asked = list(questions)
    lib = jars(["filter", "remoting"], version)
    classes = compile_java([JAVA_SOURCES / "FilterJudge.java"], lib)
    with start_java("FilterJudge", [], [lib, classes], reads_input=True) as process:
        try:
            out, err = process.communicate("\n".join([*asked, ""]), timeout=JUDGE_TIMEOUT_S)
        except BaseException:
            process.kill()
            raise
    assert process.returncode == 0, err
    answers = out.split("\n")[:-1]  # a refusal may quote other line ends
    assert len(answers) == len(asked), err
    return answers


def hexadecimal(text: str) -> str:
    return text.encode().hex()


def ask_sql(text: str) -> str:
    return f"SQL {hexadecimal(text)}"


def ask_on(properties: Mapping[str, str]) -> str:
    pairs = (f"{hexadecimal(name)}={hexadecimal(value)}" for name, value in properties.items())
    return " ".join(["ON", *pairs])
