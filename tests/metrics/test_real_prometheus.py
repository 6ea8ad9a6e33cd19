"""A real Prometheus scrapes a running broker, loads the rules and answers every panel."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.net.address import Address
from support.net.ports import port_with_one_below

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
RULES = FOLDER / "flintmq-rules.yml"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "flintmq-dashboard.json").read_text())
PROGRAM = shutil.which("prometheus")
DEADLINE_S = 90

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(PROGRAM is None, reason="no prometheus here: apt install prometheus"),
]


def api(port: int, path: str, **parameters: str) -> Any:
    query = urllib.parse.urlencode(parameters)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{query}") as answer:
        return json.load(answer)["data"]


@contextmanager
def prometheus(target: str, folder: Path) -> Iterator[int]:
    """A Prometheus that scrapes once a second; where it listens."""
    assert PROGRAM is not None
    port = port_with_one_below(1)
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{RULES}]\n"
        "scrape_configs:\n"
        f"  - {{job_name: flintmq, static_configs: [{{targets: ['{target}']}}]}}\n"
    )
    process = subprocess.Popen(
        [
            PROGRAM,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield port
    finally:
        process.terminate()
        process.wait(60)


def wait_for(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            if condition():
                return
        except OSError:  # it does not listen yet
            pass
        assert time.monotonic() < end_s, "it did not come true"
        time.sleep(0.2)


def test_it_scrapes_loads_the_rules_and_answers_every_panel(tmp_path: Path) -> None:
    with EmbeddedBroker(metrics=Address("127.0.0.1", 0)) as broker:
        with broker.producer("shop") as producer:
            for _ in range(50):
                producer.send(Message("orders", b"x"))
        with (
            broker.push_consumer("billing", lambda _: None, start_from="first").subscribe("orders"),
            prometheus(broker.metrics, tmp_path) as port,
        ):
            sent = 'rocketmq_messages_in_total{topic="orders"}'
            wait_for(lambda: api(port, "query", query=sent)["result"])
            (series,) = api(port, "query", query=sent)["result"]
            assert series["value"][1] == "50"
            (target,) = api(port, "targets")["activeTargets"]
            assert (target["health"], target["lastError"]) == ("up", "")
            wait_for(lambda: len(api(port, "query", query="up[1m]")["result"][0]["values"]) > 3)
            wait_for(lambda: all(state == "ok" for state in rule_states(port)))
            assert len(rule_states(port)) > 10
            answered = empty = 0
            for expression in panel_expressions():
                found = api(port, "query", query=expression)
                answered += bool(found["result"])
                empty += not found["result"]
    assert answered > 25, (answered, empty)


def rule_states(port: int) -> list[str]:
    groups = api(port, "rules")["groups"]
    return [rule["health"] for group in groups for rule in group["rules"]]


def panel_expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            expression: str = target["expr"]
            for name, value in (
                ("$__rate_interval", "1m"),
                ("$cluster", ".*"),
                ("$node", ".*"),
                ("$job", "flintmq"),
            ):
                expression = expression.replace(name, value)
            yield expression
