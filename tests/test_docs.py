"""What README and docs say can be done, can be done."""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.net.address import Address
from flintmq.net.channel import Channel
from flintmq.net.server import serve_commands
from flintmq.protocol.bodies.cluster import Cluster
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, answer

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
NAME_SERVER = "127.0.0.1:9876"


def python_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def name_server() -> Iterator[str]:
    """Something that answers the one question the README asks."""

    def reply(request: Command, _channel: Channel) -> Command:
        assert request.code == RequestCode.GET_BROKER_CLUSTER_INFO
        return answer(request, ResponseCode.SUCCESS, body=Cluster().to_body())

    ready, done = threading.Event(), threading.Event()
    address: list[str] = []

    async def run() -> None:
        async with await serve_commands(Address("127.0.0.1", 0), reply) as server:
            address.append(str(server.address))
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    ready.wait(10)
    yield address[0]
    done.set()
    thread.join()


def test_the_code_of_the_readme_runs(name_server: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = python_blocks(README)

    for block in blocks:
        exec(compile(block.replace(NAME_SERVER, name_server), "README.md", "exec"), {})

    assert len(blocks) >= 2
    assert "brokerAddrTable" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    shown = subprocess.run(
        ["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True
    )
    targets = set(re.findall(r"make ([a-z-]+)", shown.stdout))

    named = set(re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8")))

    assert named <= targets


def test_the_architecture_page_ticks_the_packages_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

    ticked = set(re.findall(r"(\w+) ✓", text))

    assert ticked == {
        path.stem if path.is_file() else path.name
        for path in (ROOT / "src" / "flintmq").iterdir()
        if not path.name.startswith("_") and path.suffix in ("", ".py")
    }
