"""An app holds listeners and nothing that runs; threads and loops run the same object."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading

import pytest

from flintmq import App, PushConsumer
from flintmq.core.group import app as core
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidName, InvalidSetting, WrongState
from flintmq.model.message import ReceivedMessage
from support.client.push_support import Ear, filled, numbered
from support.client.support import nothing_left, run
from support.net.support import until


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"retri_max": 3}, "retri_max '3': did you mean retry_max?"),
        ({"maxReconsumeTimes": 3}, "maxReconsumeTimes of Java is retry_max here"),
        ({"retry_max": -2}, "retry_max"),
        ({"start_from": "yesterday"}, "start_from"),
        ({"access_key": "me"}, "go together"),
        ({"namesrv": "no address"}, "host:port"),
        ({"listener": print}, "listener"),
    ],
)
def test_a_wrong_setting_of_an_app_is_refused_at_construction(
    wrong: dict[str, object], hint: str
) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(hint)):
        App("billing", **wrong)  # type: ignore[arg-type]  # wrong on purpose
    app = App("billing")
    with pytest.raises(InvalidSetting, match=re.escape(hint)):
        app.use(**wrong)  # type: ignore[arg-type]  # wrong on purpose
    assert app.settings == {}


def test_declarations_are_kept_in_their_order_with_all_they_say() -> None:
    app = core.App("billing", namesrv="here:9876", threads_max=3)

    @app.listener("orders", tags="paid || refunded", batch_max=32)
    def bill(messages: tuple[ReceivedMessage, ...]) -> None: ...

    @app.listener("stock", sql="count > 0", ordered=True)
    def pack(messages: tuple[ReceivedMessage, ...]) -> None: ...

    assert [each.function for each in app.listeners] == [bill, pack]
    orders, stock = (each.subscription for each in app.listeners)
    assert (orders.topic, orders.tags, orders.sql, orders.batch_max, orders.ordered) == (
        "orders",
        "paid || refunded",
        None,
        32,
        None,
    )
    assert (stock.topic, stock.sql, stock.ordered) == ("stock", "count > 0", True)
    assert app.settings == {"namesrv": "here:9876", "threads_max": 3}
    app.use(namesrv="there:9876")
    assert app.settings["namesrv"] == "there:9876"


def test_what_cannot_be_declared_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidName):
        App("a group")
    app = App("refusing")
    app.listener("orders")(Ear())
    with pytest.raises(InvalidSetting, match="has a listener already"):
        app.listener("orders")
    with pytest.raises(InvalidSetting, match="not both"):
        app.listener("more", tags="a", sql="b > 1")
    with pytest.raises(InvalidSetting, match="batch_max"):
        app.listener("more", batch_max=0)
    with pytest.raises(InvalidSetting, match="write @app"):
        app.listener(Ear())  # type: ignore[call-overload]  # the parentheses were forgotten
    with pytest.raises(InvalidSetting, match="must be a function"):
        app.listener("more")("no function")  # type: ignore[type-var]
    with pytest.raises(InvalidSetting, match="no such setting"):
        App("listening", listener=Ear())  # type: ignore[call-arg]
    with pytest.raises(InvalidSetting, match="it has no listeners"):
        App("silent").run()


def test_what_is_for_spark_alone_is_kept_and_refused_on_threads() -> None:
    app = App("tables", namesrv="here:9876")
    app.listener("threads", threads=4)(Ear())
    app.listener("tables", as_table=True)(Ear())

    assert [each.threads for each in app.listeners] == [4, None]
    assert [each.as_table for each in app.listeners] == [False, True]
    with pytest.raises(InvalidSetting, match="runs on Spark"):
        app.consumer()
    with pytest.raises(InvalidSetting, match="threads"):
        app.listener("more", threads=0)


def test_an_app_runs_on_threads_until_a_listener_stops_it(broker: EmbeddedBroker) -> None:
    filled(broker, "app-orders", numbered(10))
    filled(broker, "app-stock", numbered(10))
    app = App("app-group", namesrv=broker.namesrv, start_from="first")
    orders, stock = Ear(), Ear()
    ready: list[PushConsumer] = []

    def stop_when_done(messages: tuple[ReceivedMessage, ...]) -> None:
        if len(orders.messages) + len(stock.messages) == 20:
            app.stop()

    @app.listener("app-orders", batch_max=4)
    def on_orders(messages: tuple[ReceivedMessage, ...]) -> None:
        orders(messages)
        stop_when_done(messages)

    @app.listener("app-stock")
    def on_stock(messages: tuple[ReceivedMessage, ...]) -> None:
        stock(messages)
        stop_when_done(messages)

    with nothing_left():
        assert app.run(on_ready=ready.append) == []

    assert sorted(orders.bodies) == sorted(stock.bodies) == numbered(10)
    assert ready[0].group == "app-group"


def test_an_app_can_be_run_again(broker: EmbeddedBroker) -> None:
    filled(broker, "app-again", numbered(1))
    app = App("again-group", namesrv=broker.namesrv, start_from="first")
    app.listener("app-again")(Ear())

    for _ in range(2):
        threading.Timer(0.05, app.stop).start()
        assert app.run() == []


def test_an_app_runs_on_the_loop_of_the_program(broker: EmbeddedBroker) -> None:
    filled(broker, "app-loop", numbered(10))
    app = App("loop-group", namesrv=broker.namesrv, start_from="first")
    bodies: list[bytes] = []

    @app.listener("app-loop")
    async def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        asyncio.get_running_loop()
        bodies.extend(message.body for message in messages)

    async def main() -> None:
        async with app:
            await until(lambda: len(bodies) == 10)
            with pytest.raises(WrongState):
                await app.__aenter__()

    with nothing_left():
        run(main())
        run(main_again(app))

    assert sorted(bodies) == numbered(10)


async def main_again(app: App) -> None:
    async with app:
        pass


def test_what_is_declared_needs_no_engine() -> None:
    code = (
        "import sys; from flintmq.core.group.app import App; "
        "print(*[m for m in sys.modules if m.startswith(('flintmq.client', 'flintmq.net'))])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""
