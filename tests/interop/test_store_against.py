"""`flintmq store check --against` reads the log of a real broker from its HA port."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flintmq import Message, Producer
from flintmq.cli.all_commands import app
from support.interop.real import RealRocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_a_copy_of_a_real_store_is_compared_with_its_broker(version: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with RealRocketMQ(version, tmp_path / "real", mappedFileSizeCommitLog=128 * 1024) as rocketmq:
        host, _, port = rocketmq.broker.partition(":")
        ha_port = f"{host}:{int(port) + 1}"
        with Producer("shop", namesrv=rocketmq.namesrv) as producer:
            for number in range(300):
                producer.send(Message("orders", b"%03d" % number * 300))
            shutil.copytree(rocketmq.store, copy)
            equal = CliRunner().invoke(app, ["store", "check", str(copy), "--against", ha_port])
            producer.send(Message("orders", b"one more"))
        path = min((copy / "commitlog").iterdir())
        content = bytearray(path.read_bytes())
        content[300] ^= 1
        path.write_bytes(content)
        different = CliRunner().invoke(
            app, ["store", "check", str(copy), "--against", ha_port, "--output", "json"]
        )

    assert "equal, both end at" in equal.output, equal.output
    told = json.loads(different.stdout)["against"]
    assert different.exit_code == 1
    assert (told["verdict"], told["different_bytes"]) == ("different", 1)
    (difference,) = told["differences"]
    assert difference["log_offset"] == 300
    assert "the broker has message 0 of 'orders'/" in difference["what"]
