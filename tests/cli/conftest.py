"""Commands in this process: built once, not for each call.

`typer.testing` builds all commands of `flintmq` anew for every line that a test runs, which costs
twenty times what most of the lines do themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import typer.main


@pytest.fixture(scope="session", autouse=True)
def _commands_are_built_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(typer.main.get_command))
        yield
