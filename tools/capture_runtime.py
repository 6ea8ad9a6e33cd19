"""Captures what released brokers answer to 28: how ``runtime_figures.jsonl`` was made.

    PYTHONPATH=tests .venv/bin/python tools/capture_runtime.py

It needs a JDK 17 and Maven, and two minutes for each broker: a broker shows how long puts took
only when it has counted for a minute.  Values are those of the machine it ran on; the one
directory in them, in a name, is written as ``<path>``.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from support.interop.ask import ask
from support.interop.real import RealRocketMQ

RUNTIME_INFO, SEND, PULL = 28, 10, 11
VERSIONS = ("4.9.7", "5.3.3")
WRITTEN_TO = Path(__file__).parents[1] / "tests" / "golden" / "runtime_figures.jsonl"
DEADLINE_S = 120
DELAYED = "DELAY\x011\x02"
MANY = 40


def capture(version: str, directory: Path) -> dict[str, str]:
    """What a broker tells once it has been sent to, pulled from and has counted a minute."""
    with RealRocketMQ(version, directory) as rocketmq:
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            for number in range(MANY):
                send(rocketmq.broker, DELAYED if number == 0 else "")
            pull(rocketmq.broker)
            header, body = ask(rocketmq.broker, RUNTIME_INFO)
            figures = json.loads(body)["table"] if header["code"] == 0 else {}  # 1 s after a start
            if "[<=0ms]" in figures.get("putMessageDistributeTime", ""):
                break
            if time.monotonic() > deadline_s:
                raise SystemExit(f"{version} did not count in time: {figures}")
            time.sleep(1)
    where = str(rocketmq.store / "commitlog")
    return {name.replace(where, "<path>"): value for name, value in sorted(figures.items())}


def send(broker: str, properties: str) -> None:
    fields = {
        "producerGroup": "p",
        "topic": "t",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1",
        "flag": "0",
        "properties": properties,
        "reconsumeTimes": "0",
        "unitMode": "false",
    }
    header, _ = ask(broker, SEND, fields, b"body")
    assert header["code"] == 0, header


def pull(broker: str) -> None:
    fields = {
        "consumerGroup": "g",
        "topic": "t",
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "1",
        "expressionType": "TAG",
    }
    ask(broker, PULL, fields)


def main() -> None:
    lines = []
    with tempfile.TemporaryDirectory() as directory:
        for version in VERSIONS:
            figures = capture(version, Path(directory) / version)
            assert not any(directory in text for text in (*figures, *figures.values()))
            lines.append(json.dumps({"broker": version, "figures": figures}) + "\n")
    WRITTEN_TO.write_text("".join(lines))


if __name__ == "__main__":
    main()
