"""A broker whose data directory is taken away acknowledges nothing more, ends by itself with a
code other than 0, and says what happened and what to do.
"""

from __future__ import annotations

import resource
import subprocess
import time
from pathlib import Path

import pytest

from flintmq.errors import Unreachable
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from support.cli.serving import ANYWHERE, COMMAND, environment, running
from support.embedded.asking import header_of
from support.store.deleting import delete

DEADLINE_S = 60

SERVE = ("serve", "--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE)
BROKER = ("broker", "--namesrv", "127.0.0.1:9", "--listen", ANYWHERE)


class Sender:
    """One client on one connection."""

    def __init__(self, channels: BlockingChannels, broker: str) -> None:
        self._channels = channels
        self._broker = broker
        self.last_code = 0

    def is_acknowledged(self) -> bool:
        command = request(RequestCode.SEND_MESSAGE_V2, header_of("orders"), b"hello")
        try:
            self.last_code = self._channels.call(self._broker, command, timeout_ms=10_000).code
        except Unreachable:
            return False
        return self.last_code == ResponseCode.SUCCESS


@pytest.mark.parametrize("how", ["deleted", "moved"])
@pytest.mark.parametrize("command", [SERVE, BROKER], ids=["serve", "broker"])
def test_with_sync_flush_no_send_is_acknowledged_once_the_directory_is_gone(
    tmp_path: Path, command: tuple[str, ...], how: str
) -> None:
    data = tmp_path / "store"
    with (
        running(*command, "--flush", "sync", "--data", data) as served,
        BlockingChannels() as channels,
    ):
        sender = Sender(channels, served.broker)
        assert sender.is_acknowledged()
        if how == "deleted":
            delete(data)
        else:
            data.rename(tmp_path / "elsewhere")

        assert not sender.is_acknowledged()
        _, errors = served.process.communicate(timeout=DEADLINE_S)

    assert sender.last_code in (ResponseCode.SUCCESS, ResponseCode.SERVICE_NOT_AVAILABLE)
    assert served.process.returncode == 1
    assert "deleted or moved while the broker worked" in errors.splitlines()[-1]
    assert "start again" in errors.splitlines()[-1]
    assert not data.exists()


def test_with_async_flush_the_next_sync_notices_it(tmp_path: Path) -> None:
    data = tmp_path / "store"
    with (
        running(*SERVE, "--flush", "async", "--data", data) as served,
        BlockingChannels() as channels,
    ):
        sender = Sender(channels, served.broker)
        assert sender.is_acknowledged()
        delete(data)

        deadline = time.monotonic() + DEADLINE_S
        while sender.is_acknowledged():
            assert time.monotonic() < deadline
        _, errors = served.process.communicate(timeout=DEADLINE_S)

    assert served.process.returncode == 1
    assert "deleted or moved while the broker worked" in errors.splitlines()[-1]
    assert not data.exists()


def test_a_process_that_may_not_map_the_log_does_not_start(tmp_path: Path) -> None:
    gigabyte = 1 << 30

    def narrow() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (gigabyte, gigabyte))  # the files of the log are one

    done = subprocess.run(
        [COMMAND, *SERVE, "--data", tmp_path / "store"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=60,
        preexec_fn=narrow,
    )

    assert done.returncode == 1
    assert done.stdout == ""
    assert "ulimit -v" in done.stderr.splitlines()[-1]
