"""Push, lite and pull consumers follow one rule for SQL92 with every release of the broker."""

from __future__ import annotations

import pytest

from flintmq import LitePullConsumer, Message, PullConsumer, PushConsumer
from flintmq.client.engine.broker_calls import BrokerCalls
from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.offsets.offset_store import RemoteOffsets
from flintmq.client.push.push_calls import PushCalls
from flintmq.client.push.push_settings import PushConfig
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import InvalidSetting
from flintmq.model.queue import QueueOffset
from support.client.pulling_support import polled
from support.client.push_support import Ear
from support.client.support import run
from support.interop.filled import new_topic, patiently, send_to
from support.interop.ours import Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers
]

CALL_MS = 15_000
SQL = "price > 10"
WANTED = [b"20", b"50"]


def test_all_consumers_get_the_same_messages_by_sql(each: Served) -> None:
    (queue,) = new_topic(each, "one-rule", 1)
    messages = [Message("one-rule", b"%d" % n, properties={"price": str(n)}) for n in (5, 20, 50)]
    send_to(each, messages, [queue])
    ear = Ear()

    push = PushConsumer(
        "rule-push", ear, namesrv=each.namesrv, start_from="first", call_timeout_ms=CALL_MS
    ).subscribe("one-rule", sql=SQL)
    with push:
        patiently(lambda: len(ear.messages) >= 2)
    with PullConsumer("rule-pull", namesrv=each.namesrv, call_timeout_ms=CALL_MS) as pull:
        pulled = [message.body for message in pull.pull(queue, 0, sql=SQL).messages]
    with LitePullConsumer("rule-lite", namesrv=each.namesrv, call_timeout_ms=CALL_MS) as lite:
        lite.assign([queue], sql=SQL)
        lite.seek_to_start(queue)
        by_lite = polled(lite, 2)

    assert sorted(ear.bodies) == sorted(pulled) == sorted(by_lite) == WANTED


def test_a_broker_that_did_not_tell_its_version_is_asked_by_nobody(each: Served) -> None:
    (queue,) = new_topic(each, "untold", 1)
    sql = TopicSubscription("untold", sql=SQL)

    async def main() -> None:
        engine = ClientEngine(ClientConfig(namesrv=each.namesrv, call_timeout_ms=CALL_MS))
        engine.start()
        try:
            await engine.route("untold")
            calls = BrokerCalls(engine, "rule-unknown")
            store = RemoteOffsets("rule-unknown", call=engine.make, address_of=calls.master)
            push = PushCalls(engine, PushConfig(group="rule-unknown"), store)
            for each_calls in (calls, push):
                with pytest.raises(InvalidSetting, match="version unknown"):
                    await each_calls.pull(Pull(queue, QueueOffset(0), sql, 32))
        finally:
            await engine.stop()

    run(main())
