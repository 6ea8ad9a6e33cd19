"""Both implementations of the kernel, for tests that hold them together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from flintmq.errors import InvalidSetting
from flintmq.kernel import choice
from flintmq.kernel.face import Loops, loops

KERNELS = (choice.PYTHON, choice.NATIVE)


def native_module() -> ModuleType:
    """The compiled module; a test that needs it is skipped where it is not built."""
    try:
        found = choice.load(choice.NATIVE)
    except InvalidSetting as error:
        pytest.skip(str(error))
    assert found is not None
    return found


def kernel_of(name: str) -> choice.Kernel:
    return choice.Kernel(native_module() if name == choice.NATIVE else None)


@contextmanager
def using_kernel(name: str) -> Iterator[None]:
    """Let all code of this process use a kernel for a while."""
    with pytest.MonkeyPatch.context() as patch:
        for function, found in vars(Loops(kernel_of(name))).items():
            patch.setattr(loops, function, found)
        yield
