"""Which kernel a process uses, how one is asked for, and what a panic of the compiled one does."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from flintmq.errors import InvalidSetting
from flintmq.kernel import choice
from support.kernels import native_module


def module_of(**functions: Any) -> ModuleType:
    """A compiled module that has these functions."""

    class Panic(BaseException):
        pass

    made = ModuleType("flintmq_native")
    vars(made).update(FACE=choice.FACE, PanicException=Panic, **functions)
    return made


@pytest.mark.parametrize("wanted", [None, "", "native"])
def test_the_compiled_kernel_is_used_where_it_is_installed(
    wanted: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = module_of()
    monkeypatch.setitem(sys.modules, "flintmq_native", made)

    assert choice.load(wanted) is made


@pytest.mark.parametrize("wanted", [None, "", "python"])
def test_without_it_plain_python_is_used(
    wanted: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "flintmq_native", None)

    assert choice.load(wanted) is None
    assert choice.Kernel(None).name == "python"


def test_a_kernel_that_was_asked_for_and_is_missing_is_an_error_that_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "flintmq_native", None)

    with pytest.raises(InvalidSetting, match=r"FLINTMQ_KERNEL 'native': .*make native"):
        choice.load("native")


def test_a_word_that_names_no_kernel_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="FLINTMQ_KERNEL 'fast': is python or native"):
        choice.load("fast")


def test_a_compiled_kernel_of_another_version_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old = module_of()
    vars(old).update(FACE=choice.FACE - 1)
    monkeypatch.setitem(sys.modules, "flintmq_native", old)

    with caplog.at_level(logging.WARNING):
        assert choice.load(None) is None
    assert "another version" in caplog.text
    with pytest.raises(InvalidSetting, match="another version"):
        choice.load("native")


def test_a_compiled_kernel_without_a_function_is_not_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def known() -> str:
        return "plain"

    def newer() -> str:
        return "plain"

    kernel = choice.Kernel(module_of(known=lambda: "compiled"))
    chosen = kernel.choose(known)
    assert chosen() == "compiled"

    with caplog.at_level(logging.WARNING):
        assert kernel.choose(newer)() == "plain"
    assert chosen() == "plain"
    assert kernel.name == "python"
    assert "it has no newer" in caplog.text
    with pytest.raises(InvalidSetting, match="it has no newer"):
        choice.Kernel(module_of(), "native").choose(newer)


def test_a_panic_is_logged_once_and_plain_python_takes_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = module_of()

    def first(_: int) -> int:
        raise made.PanicException("index out of bounds")

    vars(made).update(first=first, second=lambda value: value + 2)
    kernel = choice.Kernel(made)

    def second(value: int) -> int:
        return value * 100

    two = kernel.choose(second)
    second.__name__ = "first"
    one = kernel.choose(second)
    assert two(1) == 3

    assert [one(1), two(1), one(2)] == [100, 100, 200]
    assert kernel.name == "python"
    (said,) = caplog.records
    assert said.getMessage().startswith(
        "first of the compiled kernel panicked: index out of bounds"
    )


def test_a_real_panic_is_caught(caplog: pytest.LogCaptureFixture) -> None:
    kernel = choice.Kernel(native_module())
    calls: list[str] = []

    def panic_now(reason: str) -> None:
        calls.append(reason)

    kernel.choose(panic_now)("on purpose")

    assert calls == ["on purpose"]
    assert kernel.name == "python"
    assert "panic_now of the compiled kernel panicked: on purpose" in caplog.text


@pytest.mark.parametrize("name", ["python", "native"])
def test_the_command_says_which_kernel_it_uses(name: str) -> None:
    if name == "native":
        native_module()
    done = subprocess.run(
        [sys.executable, "-m", "flintmq", "--version"],
        env={**os.environ, "FLINTMQ_KERNEL": name},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.rstrip().endswith(f"({name} kernel)")
