"""The property names RocketMQ gives a meaning to.

A property is a name and a text that travel with a message.  Names in
`SYSTEM_NAMES` belong to clients and brokers: a user may not set them as plain
properties, because the broker would act on them or write over them.
"""

from __future__ import annotations

from typing import Final

BYTES_MAX: Final = 32_767
"""All properties of a message, as UTF-8.  Their length is a signed short in a record."""

# What a user says through `Message`'s own arguments.
TAGS: Final = "TAGS"
KEYS: Final = "KEYS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
SHARDING_KEY: Final = "__SHARDINGKEY"

# Who sent it, and where it was stored.
UNIQ_KEY: Final = "UNIQ_KEY"
CLUSTER: Final = "CLUSTER"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
INSTANCE_ID: Final = "INSTANCE_ID"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
BUYER_ID: Final = "BUYER_ID"
EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
DUP_INFO: Final = "DUP_INFO"
CRC32: Final = "__CRC32#"

# The way of a message through delay, retry and dead letter topics.
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
RETRY_TOPIC: Final = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
DLQ_REASON: Final = "DLQ_REASON"
"""Why a group gave a message up.  FlintMQ's own name: RocketMQ keeps it and reads nothing in it."""
DLQ_REPLAY_OF: Final = "DLQ_REPLAY_OF"
"""Which dead letter a replay sent again; FlintMQ\'s own name too."""
TRANSFER_FLAG: Final = "TRANSFER_FLAG"
CORRECTION_FLAG: Final = "CORRECTION_FLAG"
MQ2_FLAG: Final = "MQ2_FLAG"
REDIRECT: Final = "REDIRECT"

# Timer messages (5.x).
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"

# Transactions.
TRAN_MSG: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
TRANSACTION_ID: Final = "__transactionId__"
TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
CHECK_IMMUNITY_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"

# Put on by the consumer.
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"

# Request and reply.
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
ARRIVE_TIME: Final = "ARRIVE_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
MSG_TYPE: Final = "MSG_TYPE"

# Inner batches, light queues and pop (5.x).
INNER_NUM: Final = "INNER_NUM"
INNER_BASE: Final = "INNER_BASE"
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
POP_CK: Final = "POP_CK"
POP_CK_OFFSET: Final = "POP_CK_OFFSET"
FIRST_POP_TIME: Final = "1ST_POP_TIME"

SYSTEM_NAMES: Final = frozenset(
    {
        TAGS,
        KEYS,
        WAIT,
        DELAY,
        TIMER_DELAY_SEC,
        TIMER_DELAY_MS,
        TIMER_DELIVER_MS,
        UNIQ_KEY,
        CLUSTER,
        MSG_REGION,
        TRACE_ON,
        INSTANCE_ID,
        BORN_HOST,
        BORN_TIMESTAMP,
        BUYER_ID,
        EXTEND_UNIQ_INFO,
        DUP_INFO,
        CRC32,
        REAL_TOPIC,
        REAL_QUEUE_ID,
        RETRY_TOPIC,
        ORIGIN_MESSAGE_ID,
        RECONSUME_TIME,
        MAX_RECONSUME_TIMES,
        DLQ_ORIGIN_TOPIC,
        DLQ_ORIGIN_MESSAGE_ID,
        TRANSFER_FLAG,
        CORRECTION_FLAG,
        MQ2_FLAG,
        TIMER_OUT_MS,
        TIMER_ENQUEUE_MS,
        TIMER_DEQUEUE_MS,
        TIMER_ROLL_TIMES,
        TIMER_DEL_UNIQKEY,
        TIMER_DELAY_LEVEL,
        TRAN_MSG,
        PRODUCER_GROUP,
        TRAN_PREPARED_QUEUE_OFFSET,
        MIN_OFFSET,
        MAX_OFFSET,
        CONSUME_START_TIME,
        CORRELATION_ID,
        REPLY_TO_CLIENT,
        TTL,
        ARRIVE_TIME,
        PUSH_REPLY_TIME,
        MSG_TYPE,
        INNER_MULTI_QUEUE_OFFSET,
        POP_CK,
        POP_CK_OFFSET,
        FIRST_POP_TIME,
    }
)
"""Names a user may not set.  The others with a meaning here are open to users, as in Java."""
