"""Which implementation of the kernel a process uses.

The compiled one is used where it is installed.  ``FLINTMQ_KERNEL`` asks for one by name:
``python`` or ``native``.  One that is asked for and missing is `InvalidSetting`, as is any other
word: nobody who measures or tests should get the other one without a word.

A panic of the compiled code is a bug of ours.  It must not end a broker, so it is caught here as
`KernelPanicked`, logged once, and from then on the process uses plain Python.  The call that failed
is made again there.

Invariant: a compiled function changes nothing but what it returns, so a call can be made again.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from os import environ
from types import ModuleType
from typing import Final, TypeVar

from flintmq.errors import FlintError, InvalidSetting
from flintmq.logs import logger

log = logger(__name__)

VARIABLE: Final = "FLINTMQ_KERNEL"
PYTHON: Final = "python"
NATIVE: Final = "native"
MODULE: Final = "flintmq_native"

FACE: Final = 3
"""The version of the functions between both; that of an installed module must be the same."""


class KernelPanicked(FlintError):
    """A function of the compiled kernel panicked: a bug in flintmq.  Plain Python takes over."""

    def __init__(self, function: str, reason: str) -> None:
        super().__init__(function, reason)
        self.function, self.reason = function, reason

    def __str__(self) -> str:
        return f"{self.function} of the compiled kernel panicked: {self.reason}"


F = TypeVar("F", bound=Callable[..., object])


def load(wanted: str | None) -> ModuleType | None:
    """The compiled module, or nothing where plain Python is to be used."""
    if wanted not in (None, "", PYTHON, NATIVE):
        raise InvalidSetting(VARIABLE, str(wanted), f"is {PYTHON} or {NATIVE}, or is not set")
    if wanted == PYTHON:
        return None
    try:
        found = import_module(MODULE)
    except ImportError as error:
        if wanted == NATIVE:
            raise InvalidSetting(
                VARIABLE,
                NATIVE,
                f"{MODULE} cannot be imported ({error}): run make native, which needs cargo, "
                f"or set {VARIABLE}={PYTHON}",
            ) from None
        return None
    if found.FACE == FACE:
        return found
    _is_other(wanted, f"face {found.FACE}, not {FACE}")
    return None


def _is_other(wanted: str | None, difference: str) -> None:
    """The compiled module does not fit: an error for who asked for it, a warning for all others."""
    reason = f"{MODULE} is of another version ({difference}): run make native"
    if wanted == NATIVE:
        raise InvalidSetting(VARIABLE, NATIVE, reason)
    log.warning("the kernel is plain Python: %s", reason)


class Kernel:
    """The implementation in use.  ``native`` is the compiled module, if there is one.

    One without a function that is chosen is of another version, and is used for no other either.
    """

    def __init__(self, native: ModuleType | None, wanted: str | None = None) -> None:
        self._native = native
        self._wanted = wanted
        self._panic: type[BaseException] = native.PanicException if native else KernelPanicked

    @property
    def name(self) -> str:
        return PYTHON if self._native is None else NATIVE

    def choose(self, plain: F, *more: object) -> F:
        """The compiled twin of a function, if there is one; it also gets what is in ``more``."""
        if self._native is None:
            return plain
        name = plain.__name__
        compiled = getattr(self._native, name, None)
        if compiled is None:
            self._native = None
            _is_other(self._wanted, f"it has no {name}")
            return plain

        def call(*args: object) -> object:
            if self._native is not None:
                try:
                    return compiled(*args, *more)
                except self._panic as panic:
                    self._give_up(name, panic)
            return plain(*args)

        return call  # type: ignore[return-value]  # the signature is that of its twin

    def _give_up(self, name: str, panic: BaseException) -> None:
        if self._native is not None:
            self._native = None
            error = KernelPanicked(name, str(panic))
            log.error("%s: please report it; this process goes on in plain Python", error)


kernel: Final = Kernel(load(environ.get(VARIABLE)), environ.get(VARIABLE))
