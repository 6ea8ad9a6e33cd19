"""The code of docs/python.md runs, block after block, and its assertions hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flintmq.embedded.broker import EmbeddedBroker

PAGE = Path(__file__).parents[3] / "docs" / "python.md"
ADDRESS = "127.0.0.1:9876"


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "guide"}

    with EmbeddedBroker() as servers:
        for number, block in enumerate(blocks, 1):
            code = block.replace(ADDRESS, servers.namesrv)
            origin = f"{PAGE.name}, block {number}"
            exec(compile(code, origin, "exec", dont_inherit=True), names)

    assert len(blocks) >= 3
