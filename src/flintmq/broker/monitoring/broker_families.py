"""Every metric of a broker.

Names and labels are those that a broker 5.3.3 writes on the wire, with its unit at the end; HELP
and TYPE are right, where RocketMQ's are not.  Labels that all have, `cluster`, `node_type` and
`node_id`, are not listed.
"""

from __future__ import annotations

from typing import Final

from flintmq.broker.counters.call_times import CALL_BOUNDS_MS, CREATE_BOUNDS_MS
from flintmq.broker.counters.message_counts import DELAY_BOUNDS_S, FINISH_BOUNDS_S, SIZE_BOUNDS
from flintmq.broker.tables.put_times import PUT_BOUNDS_S
from flintmq.metrics.families import Family, counter, gauge, histogram

_IN = ("topic", "message_type", "is_system")
_OUT = ("topic", "consumer_group", "is_system")
_LAG = ("consumer_group", "topic", "is_retry", "is_system")
_STORAGE = ("storage_type", "storage_medium")

# messages
MESSAGES_IN: Final = counter("rocketmq_messages_in_total", "Messages stored by sends.", *_IN)
THROUGHPUT_IN: Final = counter("rocketmq_throughput_in_total", "Bytes of their records.", *_IN)
MESSAGE_SIZE: Final = histogram(
    "rocketmq_message_size", "Bytes of a record; of a batch the mean.", SIZE_BOUNDS, *_IN
)
MESSAGES_OUT: Final = counter(
    "rocketmq_messages_out_total", "Messages that pulls were answered with.", *_OUT
)
THROUGHPUT_OUT: Final = counter("rocketmq_throughput_out_total", "Bytes of their records.", *_OUT)
SEND_TO_DLQ: Final = counter(
    "rocketmq_send_to_dlq_messages_total", "Messages that became dead letters.", *_OUT
)

# groups
LAG_MESSAGES: Final = gauge(
    "rocketmq_consumer_lag_messages", "Messages behind the committed offset.", *_LAG
)
LAG_LATENCY: Final = gauge(
    "rocketmq_consumer_lag_latency_milliseconds", "Age of the oldest uncommitted message.", *_LAG
)
INFLIGHT: Final = gauge(
    "rocketmq_consumer_inflight_messages",
    "Messages pulled and not committed, or popped and not acknowledged.",
    *_LAG,
)
QUEUEING_LATENCY: Final = gauge(
    "rocketmq_consumer_queueing_latency_milliseconds",
    "Age of the oldest message that is not pulled.",
    *_LAG,
)
READY_MESSAGES: Final = gauge("rocketmq_consumer_ready_messages", "Messages not pulled.", *_LAG)
PRODUCER_CONNECTIONS: Final = gauge(
    "rocketmq_producer_connections",
    "Connections of producers.",
    *("language", "version", "protocol_type"),
)
CONSUMER_CONNECTIONS: Final = gauge(
    "rocketmq_consumer_connections",
    "Connections of members of consumer groups.",
    *("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
)

# requests
RPC_LATENCY: Final = histogram(
    "rocketmq_rpc_latency_milliseconds",
    "From a request to its answer, the time it was held included.",
    CALL_BOUNDS_MS,
    *("protocol_type", "request_code", "response_code", "is_long_polling", "result"),
)
TOPIC_CREATE_TIME: Final = histogram(
    "rocketmq_topic_create_execution_time_milliseconds",
    "Creating or changing a topic.",
    CREATE_BOUNDS_MS,
    *("invocation_status", "is_system"),
)
GROUP_CREATE_TIME: Final = histogram(
    "rocketmq_consumer_group_create_execution_time_milliseconds",
    "Creating or changing a consumer group.",
    CREATE_BOUNDS_MS,
    "invocation_status",
)
WATERMARK: Final = gauge(
    "rocketmq_processor_watermark",
    "Requests that wait: sends for the disk; nothing else has a queue here.",
    "processor",
)

# the broker and its store
PERMISSION: Final = gauge("rocketmq_broker_permission", "Permission bits: 2 write, 4 read.")
TOPIC_NUMBER: Final = gauge("rocketmq_topic_number", "Topics.")
GROUP_NUMBER: Final = gauge("rocketmq_consumer_group_number", "Consumer groups.")
STORAGE_SIZE: Final = gauge(
    "rocketmq_storage_size_bytes", "Bytes used on the partition of the store.", *_STORAGE
)
FLUSH_BEHIND: Final = gauge(
    "rocketmq_storage_flush_behind_bytes", "Bytes of the log that are not synced.", *_STORAGE
)
DISPATCH_BEHIND: Final = gauge(
    "rocketmq_storage_dispatch_behind_bytes",
    "Always 0: queues are written with the log.",
    *_STORAGE,
)
RESERVE_TIME: Final = gauge(
    "rocketmq_storage_message_reserve_time_milliseconds", "Age of the oldest record.", *_STORAGE
)

# transactions, delays and timers
COMMITS: Final = counter("rocketmq_commit_messages_total", "Half messages committed.", "topic")
ROLLBACKS: Final = counter(
    "rocketmq_rollback_messages_total", "Half messages rolled back.", "topic"
)
FINISH_LATENCY: Final = histogram(
    "rocketmq_finish_message_latency_milliseconds",
    "From a half message to its commit, in seconds in spite of the name, as in RocketMQ.",
    FINISH_BOUNDS_S,
    "topic",
)
HALF_MESSAGES: Final = gauge(
    "rocketmq_half_messages", "Half messages since the start that did not end.", "topic"
)
TIMER_ENQUEUE_LAG: Final = gauge(
    "rocketmq_timer_enqueue_lag", "Timer messages that are not looked at yet.", *_STORAGE
)
TIMER_ENQUEUE_LATENCY: Final = gauge(
    "rocketmq_timer_enqueue_latency_milliseconds",
    "Always 0: timer messages are looked at in the turn that stores them.",
    *_STORAGE,
)
TIMER_DEQUEUE_LAG: Final = gauge(
    "rocketmq_timer_dequeue_lag", "Timer messages that are due and not delivered.", *_STORAGE
)
TIMER_DEQUEUE_LATENCY: Final = gauge(
    "rocketmq_timer_dequeue_latency_milliseconds",
    "How long the first of them is due.",
    *_STORAGE,
)
TIMER_SNAPSHOT: Final = gauge(
    "rocketmq_timer_message_snapshot",
    "Timer messages due within the bound and not within the one before.",
    "timer_bound_s",
    *_STORAGE,
)
TIMING_MESSAGES: Final = gauge(
    "rocketmq_timing_messages",
    "Timer messages that wait for their time, by the topic they go to.",
    "topic",
    *_STORAGE,
)
TIMER_ENQUEUES: Final = counter("rocketmq_timer_enqueue_total", "Timer messages taken.", "topic")
TIMER_DEQUEUES: Final = counter(
    "rocketmq_timer_dequeue_total", "Timer messages delivered.", "topic"
)
DELAY_LATENCY: Final = histogram(
    "rocketmq_delay_message_latency_seconds",
    "How long timer messages asked to wait.",
    DELAY_BOUNDS_S,
    "topic",
)

# what only we have
READY: Final = gauge("flintmq_ready", "1 when /readyz says so.")
CONNECTIONS: Final = gauge("flintmq_connections", "Connections of clients, tools and brokers.")
HELD_PULLS: Final = gauge("flintmq_held_pulls", "Pulls that wait for a message.")
UNSYNCED_SENDS: Final = gauge("flintmq_unsynced_sends", "Sends that wait for the disk.")
UNSYNCED_BYTES: Final = gauge("flintmq_unsynced_bytes", "Bytes of their bodies.")
PUT_LATENCY: Final = histogram(
    "flintmq_put_latency_seconds",
    "From the first request of a turn to the answers of its messages.",
    PUT_BOUNDS_S,
)
PUTS_FAILED: Final = counter("flintmq_puts_failed_total", "Messages the disk did not take.")
DISK_USABLE: Final = gauge("flintmq_disk_usable_bytes", "Bytes left on the partition of the store.")
WRITABLE: Final = gauge("flintmq_store_writable", "1 when the store takes messages.")
LOG_START: Final = gauge("flintmq_commit_log_start_offset", "Where the log begins.")
LOG_END: Final = gauge("flintmq_commit_log_end_offset", "Where the log ends.")
SLAVES: Final = gauge("flintmq_slaves", "Slaves that are connected and have reported.")
SLAVE_BEHIND: Final = gauge(
    "flintmq_slave_behind_bytes",
    "Bytes of the log that the slave at a host has not stored.",
    "slave",
)
FOLLOWING: Final = gauge(
    "flintmq_following", "1 while the broker follows its master; a master has no such sample."
)
SCRUB_BYTES: Final = counter(
    "flintmq_scrub_bytes_total", "Bytes of the log that the scrub has checked; only where it is on."
)
SCRUB_FOUND: Final = counter("flintmq_scrub_found_total", "Damaged places that it has found.")
SCRUB_HEALED: Final = counter("flintmq_scrub_healed_total", "Of these, healed from a replica.")
SCRUB_DAMAGED: Final = gauge("flintmq_scrub_damaged_places", "Of these, still damaged.")
LOOP_STALLS: Final = counter(
    "flintmq_loop_stalls_total", "How often the event loop was blocked for 20 ms or longer."
)
LOOP_STALL_MAX: Final = gauge("flintmq_loop_stall_max_seconds", "The longest such time.")
FAILED_SAVES: Final = counter("flintmq_failed_saves_total", "Saves of tables that failed.")
BACKWARD_COMMITS: Final = counter(
    "flintmq_offset_commits_backward_total", "Commits of an offset below the one before."
)
NOT_DELIVERED: Final = counter(
    "flintmq_not_delivered_total", "Delayed and timer messages that were skipped.", "kind"
)
CONFLICTS: Final = gauge(
    "flintmq_subscription_conflicts", "Members that differ from their group in subscriptions."
)
REFUSED: Final = counter(
    "flintmq_refused_total", "What limits and quotas refused, or delayed, by their names.", "limit"
)
NOT_COUNTED: Final = counter(
    "flintmq_stats_not_counted_total", "Changes not counted, because the table of names was full."
)

FAMILIES: tuple[Family, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Family)
)
"""All of them, in the order of the page."""
