"""`--metrics` serves metrics and probes; without it, and without the extra, it is plain what is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from support.cli.serving import ANYWHERE, COMMAND, environment, failing, running
from support.embedded.asking import send
from support.metrics.scraping import page, scrape
from support.net.ports import port_with_one_below

FREE = ("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE)


def somewhere() -> str:
    return f"127.0.0.1:{port_with_one_below(1)}"


def test_serve_shows_the_broker_and_the_name_server_on_one_page(tmp_path: Path) -> None:
    where = somewhere()
    with running("serve", *FREE, "--data", tmp_path, "--metrics", where) as served:
        send(served.broker, "orders")
        found = scrape(where)
        ready = page(where, "/readyz")
        code = served.stop()

    assert found.value("rocketmq_messages_in_total", topic="orders") == 1
    assert found.value("flintmq_namesrv_brokers") == 1
    assert ready[0] == 200
    assert code == 0
    assert f"metrics are served at http://{where}/metrics" in served.errors


def test_a_name_server_and_a_broker_of_their_own_have_metrics_too(tmp_path: Path) -> None:
    with running("namesrv", "--listen", ANYWHERE, "--metrics", ns := somewhere()) as namesrv:
        conf = tmp_path / "broker.conf"
        where = somewhere()
        conf.write_text(
            "metricsExporterType=PROM\n"
            f"metricsPromExporterPort={where.rpartition(':')[2]}\n"
            "metricsLabel=dc:lab,rack:7\n"
        )
        arguments = ("--namesrv", namesrv.namesrv, "--listen", ANYWHERE, "--config", conf)
        with running("broker", *arguments, "--data", tmp_path / "store") as broker:
            found, names = scrape(where), scrape(ns)
            assert broker.stop() == 0
        assert namesrv.stop() == 0

    assert found.value("flintmq_ready", dc="lab", rack="7", node_id="broker-a") == 1
    assert names.value("flintmq_namesrv_brokers", cluster="DefaultCluster") == 1


def test_without_the_extra_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    store = tmp_path / "store"

    for command in ("broker", "serve"):
        code, said = failing(command, "--data", store, "--metrics", ANYWHERE)

        assert code == 1
        assert "pip install 'flintmq[metrics]'" in said
    assert not store.exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("metricsExporterType=OTLP_GRPC", "it must be PROM or DISABLE"),
        ("metricsLabel=topic:x", "topic is a label that metrics have already"),
        ("metricsLabel=a b:x", "it must be name:value,name:value"),
        ("metricsPromExporterPort=70000", "metricsPromExporterPort"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(tmp_path: Path, line: str, said: str) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(line + "\n")

    code, errors = failing("broker", "--config", conf, "--data", tmp_path / "store")

    assert code == 1
    assert said in errors


def test_run_serves_the_metrics_of_an_app(tmp_path: Path) -> None:
    where = somewhere()
    (tmp_path / "shop.py").write_text(
        "from flintmq import App\n"
        "app = App('billing', start_from='first')\n"
        "@app.listener('orders')\n"
        "def bill(messages): pass\n"
    )
    with EmbeddedBroker() as broker:
        send(broker.broker, "orders")
        process = subprocess.Popen(
            [COMMAND, "run", "./shop.py:app", "--namesrv", broker.namesrv, "--metrics", where],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("flintmq ready app=")
            name = "flintmq_client_consumed_messages_total"
            broker.wait_for(lambda: scrape(where).total(name, consumer_group="billing") == 1, 60)
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.communicate()


def test_run_refuses_metrics_where_there_are_several_processes() -> None:
    code, said = failing("run", "shop:app", "--metrics", ANYWHERE, "--processes", "2")

    assert code == 2
    assert "--metrics is for" in said
