"""Which light queues a message goes to, and its offset in each.

A producer may name light queues and nothing else: a name of another kind would reach queues that
the checks of a send did not look at.  Half messages are in none before their commit, which RocketMQ
does not mind.
"""

from __future__ import annotations

from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.model import properties as names
from flintmq.model.light_queue import SEPARATOR, is_light_name, may_have_light
from flintmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import ResponseCode

TOO_MANY = (
    "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq and enableMultiDispatch, lmq "
    "consumeQueue num exceed maxLmqConsumeQueueNum config num"
)


def light_topic(name: str) -> TopicConfig:
    """The topic of a light queue: it is there when somebody asks for it."""
    return TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1)


def number_light(state: BrokerTables, topic: str, properties: dict[str, str]) -> list[str]:
    """The light queues of a message; its offsets there are written into its properties."""
    properties.pop(names.INNER_MULTI_QUEUE_OFFSET, None)
    text = properties.get(names.INNER_MULTI_DISPATCH, "")
    if not text.strip() or not may_have_light(topic) or topic in (HALF_TOPIC, OP_HALF_TOPIC):
        return []
    found = text.split(SEPARATOR)
    for name in found:
        if not is_light_name(name) or found.count(name) > 1:
            remark = f"INNER_MULTI_DISPATCH names {name!a}: it must be %LMQ%name, each once"
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, remark)
    light = state.log.raw.light
    new = sum(name not in light for name in found)
    if new and light.count + new > state.config.store.light_queues_max:
        raise Refusal(ResponseCode.SYSTEM_ERROR, TOO_MANY)
    offsets = (str(light.next_offset(name)) for name in found)
    properties[names.INNER_MULTI_QUEUE_OFFSET] = SEPARATOR.join(offsets)
    return found
