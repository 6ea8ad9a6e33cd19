"""`flintmq namesrv` says when it is ready, keeps what it was told and stops when asked to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flintmq.net.channels.channel_pool import connect
from flintmq.net.loop import run
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.common_headers import PutSetting, SettingOf

COMMAND = "import typer; from flintmq.cli.namesrv import namesrv; typer.run(namesrv)"
READY = "flintmq ready namesrv="
ANY_PORT = "127.0.0.1:0"
CALL_MS = 15_000

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a name server with arguments and, by keyword, environment variables."""
    started: list[subprocess.Popen[str]] = []

    def launch(*arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(READY), process.communicate()
    return line.removeprefix(READY).strip()


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[str, str]:
    process.send_signal(number)
    output = process.communicate(timeout=60)
    assert process.returncode == 0, output
    return output


def ask(address: str, code: RequestCode, header: Header | None = None) -> Command:
    async def main() -> Command:
        channel = await connect(address)
        reply = await channel.call(request(code, header), CALL_MS)
        await channel.close()
        return reply

    return run(main())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_once_it_is_ready_and_stops_cleanly(start: Start, number: int) -> None:
    process = start("--listen", ANY_PORT)

    reply = ask(address_of(process), RequestCode.GET_BROKER_CLUSTER_INFO)
    stdout, stderr = stop(process, number)

    assert reply.code == 0
    assert stdout == ""  # after the one line
    assert "Traceback" not in stderr


def test_a_taken_port_is_told_in_one_line(start: Start) -> None:
    address = address_of(start("--listen", ANY_PORT))

    late = start("--listen", address)
    stdout, stderr = late.communicate(timeout=60)

    assert late.returncode == 1
    assert stdout == ""
    assert stderr.count("\n") == 1
    assert address in stderr


def test_settings_outlive_the_process(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "not" / "yet"
    first = start("--listen", ANY_PORT, "--data", data)
    put = PutSetting(namespace="n", key="k", value="v")
    ask(address_of(first), RequestCode.PUT_KV_CONFIG, put)
    stop(first)

    second = start("--listen", ANY_PORT, FLINTMQ_NAMESRV_DATA=str(data))
    found = ask(address_of(second), RequestCode.GET_KV_CONFIG, SettingOf(namespace="n", key="k"))
    stop(second)

    assert found.field_texts() == {"value": "v"}
    expected = '{\n\t"configTable":{\n\t\t"n":{\n\t\t\t"k":"v"\n\t\t}\n\t}\n}'
    assert (data / "kvConfig.json").read_text() == expected


def test_a_flag_beats_the_environment_which_beats_the_file(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("bindAddress=0.0.0.0\nlistenPort=0\nclientRequestThreadPoolNums=8\n")

    by_file = start("--config", file, "--open")
    by_environment = start("--config", file, FLINTMQ_NAMESRV_LISTEN=ANY_PORT)
    by_flag = start("--config", file, "--listen", ANY_PORT, FLINTMQ_NAMESRV_LISTEN="nowhere")
    hosts = [
        address_of(process).partition(":")[0] for process in (by_file, by_environment, by_flag)
    ]
    _, stderr = stop(by_file)

    assert hosts == ["0.0.0.0", "127.0.0.1", "127.0.0.1"]
    assert f"{file}: clientRequestThreadPoolNums is not a setting" in stderr


def test_the_file_may_say_where_settings_are_kept(start: Start, tmp_path: Path) -> None:
    kept, file = tmp_path / "kv.json", tmp_path / "namesrv.conf"
    kept.write_text('{"configTable":{"n":{"k":"v"}}}')
    file.write_text(f"listenPort=0\nkvConfigPath={kept}\n")

    process = start("--config", file)
    found = ask(address_of(process), RequestCode.GET_KV_CONFIG, SettingOf(namespace="n", key="k"))

    assert found.field_texts() == {"value": "v"}


@pytest.mark.parametrize(
    ("arguments", "content", "reason"),
    [
        (("--listen", "nowhere"), None, "give host:port"),
        (("--config", "missing.conf"), None, "No such file"),
        (("--config", "namesrv.conf"), "listenPort=x", "listenPort 'x'"),
        (("--config", "namesrv.conf"), "kvConfigPath=namesrv.conf\nlistenPort=0", "KvConfig"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    content: str | None,
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "namesrv.conf").write_text(content)

    process = start(*arguments)
    stdout, stderr = process.communicate(timeout=60)

    assert process.returncode == 1
    assert stdout == ""
    assert reason in stderr
    assert stderr.count("\n") == 1


def test_who_listens_beyond_loopback_is_told_what_is_missing(start: Start) -> None:
    process = start("--listen", "0.0.0.0:0", "--open")
    address = address_of(process)

    _, stderr = stop(process)

    assert address.startswith("0.0.0.0:")
    assert "open to the network without TLS and access control" in stderr
