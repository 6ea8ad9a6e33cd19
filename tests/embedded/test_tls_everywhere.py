"""Every way into a cluster takes TLS settings, and shows a certificate where servers ask for one.

The servers of this page serve nobody without a certificate of their authority.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq import (
    App,
    ClientTls,
    EmbeddedBroker,
    FlintError,
    Message,
    ReceivedMessage,
    ServerTls,
    TlsMode,
    TransactionState,
    aio,
)
from flintmq.arrow import read_topic
from flintmq.client.producer.threaded_producer import Producer
from flintmq.core.routes import fetch_route
from flintmq.spark.options.sink_options import sink_options
from flintmq.spark.options.source_options import SourceOptions
from support.cli.story import all_commands
from support.client.support import wait_for
from support.net.certificates import Authority

pytest_plugins = ["flintmq.embedded.pytest_plugin"]

ASK_MS = 10_000


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="session")
def tls(authority: Authority) -> ClientTls:
    return ClientTls(authority.ca_file, authority.sign("own"))


@pytest.fixture(scope="session")
def flintmq_settings(authority: Authority, tls: ClientTls) -> dict[str, Any]:
    """What the fixtures for users' own tests are set up with."""
    certificate = authority.sign("served")
    asking = ServerTls(certificate, client_ca_file=authority.ca_file, mode=TlsMode.ENFORCING)
    return {"tls": asking, "client_tls": tls}


@pytest.fixture(scope="module")
def broker(flintmq_settings: dict[str, Any]) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(**flintmq_settings) as servers:
        with servers.admin() as admin:
            admin.create_topic("T")
        with servers.producer("p") as producer:
            producer.send(Message("T", b"hello"))
        yield servers


def produce(broker: EmbeddedBroker, tls: ClientTls) -> None:
    with broker.producer("p", tls=tls) as producer:
        producer.send(Message("T", b"hello"))


def produce_on_a_loop(broker: EmbeddedBroker, tls: ClientTls) -> None:
    async def main() -> None:
        async with aio.Producer("p", namesrv=broker.namesrv, tls=tls) as producer:
            await producer.send(Message("T", b"hello"))

    asyncio.run(main())


def transact(broker: EmbeddedBroker, tls: ClientTls) -> None:
    def check(*_: object) -> TransactionState:
        return TransactionState.COMMIT

    with broker.transaction_producer("tp", check, tls=tls) as producer:
        producer.send(Message("T", b"hello"))


def listen(broker: EmbeddedBroker, tls: ClientTls) -> None:
    got: list[ReceivedMessage] = []
    consumer = broker.push_consumer("push", start_from="first", tls=tls)
    consumer.subscribe("T", listener=got.extend)
    with consumer:
        wait_for(lambda: got)


def listen_in_an_app(broker: EmbeddedBroker, tls: ClientTls) -> None:
    got: list[ReceivedMessage] = []
    app = App("app", start_from="first", tls=tls, namesrv=broker.namesrv)
    app.listener("T")(got.extend)
    with app.consumer():
        wait_for(lambda: got)


def poll(broker: EmbeddedBroker, tls: ClientTls) -> None:
    with broker.lite_pull_consumer("lite", start_from="first", tls=tls) as consumer:
        consumer.subscribe("T")
        wait_for(lambda: consumer.poll(100))


def pull(broker: EmbeddedBroker, tls: ClientTls) -> None:
    with broker.pull_consumer("pull", tls=tls) as consumer:
        assert sum(map(consumer.max_offset, consumer.queues("T"))) > 0


def administer(broker: EmbeddedBroker, tls: ClientTls) -> None:
    with broker.admin(tls=tls) as admin:
        assert "T" in {topic.name for topic in admin.topics()}


def administer_on_a_loop(broker: EmbeddedBroker, tls: ClientTls) -> None:
    async def main() -> None:
        async with aio.Admin(namesrv=broker.namesrv, tls=tls) as admin:
            assert "T" in {topic.name for topic in await admin.topics()}

    asyncio.run(main())


def read_columns(broker: EmbeddedBroker, tls: ClientTls) -> None:
    assert read_topic("T", namesrv=broker.namesrv, tls=tls).num_rows > 0


def _options(broker: EmbeddedBroker, tls: ClientTls) -> dict[str, str]:
    files = {
        "tlsCa": tls.ca_file,
        "tlsCertificate": tls.certificate_file,
        "tlsServerName": tls.server_name,
    }
    given = {name: file for name, file in files.items() if file is not None}
    return {"namesrv": broker.namesrv, "retryTimeout": "0s", **given}


def read_on_spark(broker: EmbeddedBroker, tls: ClientTls) -> None:
    """What a task of Spark opens, by the options of a source."""
    options = {"subscribe": "T", **_options(broker, tls)}
    with SourceOptions.parse(options, stream=False).access.open() as line:
        assert line.hold(fetch_route(line.namesrv, "T", ASK_MS)) is not None


def write_on_spark(broker: EmbeddedBroker, tls: ClientTls) -> None:
    """What a task of Spark sends with, by the options of a sink."""
    settings = sink_options({"topic": "T", **_options(broker, tls)}).producer_settings()
    with Producer("sink", **settings) as producer:
        producer.send(Message("T", b"hello"))


WAYS: dict[str, Callable[[EmbeddedBroker, ClientTls], None]] = {
    "Producer": produce,
    "aio.Producer": produce_on_a_loop,
    "TransactionProducer": transact,
    "PushConsumer": listen,
    "App": listen_in_an_app,
    "LitePullConsumer": poll,
    "PullConsumer": pull,
    "Admin": administer,
    "aio.Admin": administer_on_a_loop,
    "flintmq.arrow": read_columns,
    "Spark source": read_on_spark,
    "Spark sink": write_on_spark,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_certificate_opens_every_way(broker: EmbeddedBroker, tls: ClientTls, way: str) -> None:
    WAYS[way](broker, tls)


def test_the_fixture_of_users_gives_its_clients_the_certificate(
    flintmq_broker: EmbeddedBroker,
) -> None:
    with flintmq_broker.producer("p") as producer:
        producer.send(Message("T", b"hello"))

    assert [message.body for message in flintmq_broker.messages("T")] == [b"hello"]


@pytest.mark.parametrize("way", ["Producer", "Admin", "PullConsumer", "Spark source"])
@pytest.mark.parametrize("lacking", ["certificate_file", "ca_file", "server_name"])
def test_who_lacks_something_is_told_the_setting(
    broker: EmbeddedBroker, authority: Authority, tmp_path: Path, way: str, lacking: str
) -> None:
    """The name of the host is checked too.  Each of these ways connects as others do."""
    own = authority.sign("own again")
    tls = {
        "certificate_file": ClientTls(authority.ca_file),
        "ca_file": ClientTls(Authority(tmp_path, "other").ca_file, own),
        "server_name": ClientTls(authority.ca_file, own, server_name="elsewhere.example"),
    }[lacking]

    with pytest.raises(FlintError) as caught:
        WAYS[way](broker, tls)
    assert lacking in str(caught.value)


def test_every_command_that_asks_a_cluster_takes_tls_settings() -> None:
    """Servers have --tls-cert of their own, and a broker and a proxy --namesrv-ca."""
    asking = {
        words: {each.name for each in command.params}
        for words, command in all_commands().items()
        if "namesrv" in {each.name for each in command.params}
    }

    assert len(asking) > 40
    for words, names in asking.items():
        wanted = {"namesrv_ca", "namesrv_cert", "namesrv_key"}
        if words not in {("broker",), ("proxy",)}:
            wanted = {"tls", "tls_ca", "tls_cert", "tls_key"}
        assert wanted <= names, words
