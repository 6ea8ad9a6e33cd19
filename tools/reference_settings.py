"""What every setting is for, in the words of docs/reference/configuration.md.

Names, types, defaults and bounds come from the code (`reference_pages`); a test holds that the two
name the same settings.
"""

from __future__ import annotations

from typing import Final

CLIENT: Final = {
    "namesrv": "The name servers, `host:port`, several with `;` between them. Without it "
    "`NAMESRV_ADDR`, which is read when the client starts.",
    "namespace": "Goes before the names of topics and groups on the wire; the program does not "
    "see it. Not for `Admin`, which takes whole names.",
    "access_key": "The account, where brokers ask for one. Goes with `secret_key`.",
    "secret_key": "The secret of the account. It is never printed.",
    "security_token": "A token that goes with a temporary account.",
    "tls": "`True` speaks TLS and trusts the authorities of the system. A "
    "`flintmq.ClientTls` names files, the name to expect, and whether to check.",
    "instance_name": "A part of the client id. Without it no two clients have the same id; "
    "broadcasting consumers have `DEFAULT`, to find their offsets again.",
    "unit_name": "A further part of the client id.",
    "client_ip": "The address in the client id, when the one that is found is not the right one.",
    "route_ms": "How often name servers are asked where topics are.",
    "heartbeat_ms": "How often brokers hear from the client; they forget it after 120 s.",
    "call_timeout_ms": "How long a call may take that has no timeout of its own.",
    "connect_ms": "How long an attempt to connect may take, TLS included.",
    "request_hooks": "See every request before it leaves, may change it, and see its answer.",
}

PRODUCER: Final = {
    "retries": "Further tries of a send that failed, within its timeout.",
    "retry_unsafe": "Send again what was stored, but not flushed or copied in time.",
    "avoid_slow": "Leave brokers alone for a while that were slow or failed: by the table of "
    "RocketMQ `4.9`, by that of `5.x`, which forgives sooner, or `off`.",
    "message_bytes_max": "The largest body. Brokers have a limit of their own.",
    "batch_bytes_max": "The largest request of `send_batch`; more is sent in several.",
    "compress_from_bytes": "Bodies of this size are packed, if that makes them smaller.",
    "compression": "How: `zlib`; `lz4` and `zstd` need flintmq[compression] and consumers of 5.x.",
    "compression_level": "0 to 9.",
    "default_queue_count": "Queues to ask for when a topic is made by its first message.",
    "in_flight_max": "Messages of `send_async` under way at once; the next one waits.",
    "auto_batch": "Small messages of `send_async` share requests while others are under way.",
    "send_hooks": "See every try to send, and how it was answered.",
    "trace": "Leave a trace of every message that is stored, in RocketMQ's trace topic.",
    "trace_topic": "Leave them in this topic instead.",
}

PUSH: Final = {
    "model": "`clustering`: each message to one member of the group. `broadcasting`: each message "
    "to every member, and none is sent back.",
    "ordered": "Messages of a queue one after the other. A listener may choose for its topic.",
    "start_from": "Where a group starts that has no offset yet: `last` (or `latest`, `end`), "
    "`first` (or `earliest`, `start`), or `timestamp`.",
    "start_at_ms": "The time for `timestamp`, milliseconds since 1970; half an hour ago without.",
    "batch_max": "Messages a listener gets at once, at most. A listener may choose for its topic.",
    "threads_min": "Threads that are kept for listeners.",
    "threads_max": "Listeners that run at once, on threads or as coroutines.",
    "span_max": "How far apart the offsets of one queue may be that are not consumed yet; not in "
    "ordered consumption.",
    "queue_count_max": "Messages of one queue that may wait for listeners.",
    "queue_mib_max": "The same in MiB.",
    "topic_count_max": "The same for a topic: shared out among its queues that this member has.",
    "topic_mib_max": "The same in MiB.",
    "pull_interval_ms": "A rest between a pull that found something and the next.",
    "pull_batch_max": "Messages to ask for in one pull; a broker of RocketMQ gives 32.",
    "pull_bytes_max": "Bytes to ask for in one pull.",
    "pull_error_delay_ms": "A rest after a pull that failed.",
    "retry_max": "How often a message comes again before it is a dead letter. Without it 16, and "
    "without end in ordered consumption.",
    "ordered_suspend_ms": "How long an ordered queue rests after a failure.",
    "consume_timeout_ms": "After how long a message is sent back whose listener does not return.",
    "commit_interval_ms": "How often offsets are told to the broker.",
    "rebalance_interval_ms": "How often the queues are shared out anew; also when members change.",
    "sends_subscription": "Every pull brings its subscription along.",
    "unit_mode": "For RocketMQ's deployments in units.",
    "on_bad_record": "A message that cannot be decoded: `dead_letter` has the broker copy it to "
    "the group's dead letters, `skip` passes it over, `stop` ends the queue. Without it dead "
    "letters, in broadcasting `skip`.",
    "strategy": "How queues are shared out: one of `flintmq.allocate_averagely`, "
    "`allocate_by_circle`, … or your own; the same in all members.",
    "on_conflict": "When members of the group subscribe to something else: `error` refuses the "
    "start, `warn` logs it.",
    "on_queues": "Called on the loop when queues are gained or lost; it must not block.",
    "consume_hooks": "See every call of a listener, before and after.",
    "filter_hooks": "See what a pull brought and say what of it is wanted; the rest counts as "
    "consumed.",
    "trace": "Leave a trace of every call of a listener, in RocketMQ's trace topic.",
    "trace_topic": "Leave them in this topic instead.",
    "offset_store": "A store of your own for offsets, in place of the broker or of the file.",
    "offsets_dir": "Where broadcasting consumers keep their file; `~/.rocketmq_offsets` without.",
}

PULL: Final = {
    "model": "`clustering`: queues are shared out. `broadcasting`: every member reads all.",
    "strategy": "How queues are shared out, as for push consumers.",
    "commit_interval_ms": "How often offsets that were updated are stored.",
    "rebalance_interval_ms": "How often the queues are shared out anew.",
    "retry_max": "How often a message may be sent back before it is a dead letter.",
    "hold_ms": "How long a broker may hold a pull that finds nothing.",
    "hold_timeout_ms": "How long to wait for the answer to such a pull; more than `hold_ms`.",
    "pull_timeout_ms": "How long to wait for the answer to a pull that is not held.",
    "unit_mode": "For RocketMQ's deployments in units.",
    "on_bad_record": "A message that cannot be decoded: `skip` passes it over, `stop` ends the "
    "queue with `UndecodableRecord`.",
    "offset_store": "A store of your own for offsets.",
    "offsets_dir": "Where a broadcasting consumer keeps its file.",
}

LITE: Final = {
    "start_from": "Where a group starts that has no offset yet, as for push consumers.",
    "start_at_ms": "The time for `timestamp`; half an hour ago without.",
    "auto_commit": "What was handed out counts as done when more is asked for, and is committed.",
    "auto_commit_ms": "How often.",
    "pull_batch_max": "Messages to ask for in one pull.",
    "queue_count_max": "Messages of one queue that are pulled ahead.",
    "queue_mib_max": "The same in MiB.",
    "total_count_max": "Messages of all queues together.",
    "span_max": "How far apart the offsets of one queue may be that are pulled ahead.",
    "pull_error_delay_ms": "A rest after a pull that failed.",
    "trace": "Leave a trace of every message that is handed out.",
    "trace_topic": "Leave them in this topic instead.",
}

SCHEDULED: Final = {"threads": "Plain functions that run at once."}

BROKER: Final = {
    "brokerName": "The name of the broker in its cluster.",
    "brokerClusterName": "The cluster it belongs to.",
    "brokerId": "0: a master. Slaves are not served.",
    "brokerIP1": "The host that clients are told.",
    "bindAddress": "The address to listen on.",
    "listenPort": "The port to listen on.",
    "namesrvAddr": "The name servers to register at, with `;` between them.",
    "registerNameServerPeriod": "How often to register, ms.",
    "registerBrokerTimeoutMills": "How long a registration may take, ms.",
    "regionId": "A name that goes with every message.",
    "brokerPermission": "4 to read, 2 to write, 6 for both.",
    "autoCreateTopicEnable": "A topic is made by its first message.",
    "autoCreateSubscriptionGroup": "A group is made by its first member.",
    "defaultTopicQueueNums": "The most queues of a topic that is made by its first message.",
    "traceTopicEnable": "Make the trace topic at the start.",
    "topicsMax": "Topics that clients and tools may make. Ours.",
    "groupsMax": "Consumer groups that clients and tools may make. Ours.",
    "topicQueuesMax": "Queues of a topic that tools may make; what is there stays. Ours.",
    "groupMembersMax": "Members of a group that share its queues. Ours.",
    "startAcceptSendRequestTimeStamp": "Take no sends before this time, ms since 1970.",
    "maxMessageSize": "The largest body, bytes.",
    "traceOn": "Tell clients that traces are wanted.",
    "storeReplyMessageEnable": "Store replies to request messages too.",
    "messageDelayLevel": "The delays of the levels, from level 1 on.",
    "timerWheelEnable": "Serve messages that ask for a time of delivery.",
    "timerMaxDelaySec": "The latest such time from now, s.",
    "rejectTransactionMessage": "Refuse half messages.",
    "transactionTimeOut": "How old a half message is before its producer is asked, ms.",
    "transactionCheckMax": "How often it is asked.",
    "transactionCheckInterval": "How often half messages are looked at, ms.",
    "longPollingEnable": "Hold a pull that finds nothing for as long as its client allows.",
    "shortPollingTimeMills": "Without long polling: hold it so long, ms.",
    "slaveReadEnable": "Tell clients that lag far behind to read from a slave.",
    "litePullMessageEnable": "Serve lite pull.",
    "enablePropertyFilter": "Serve SQL92 subscriptions.",
    "filterSupportRetry": "Filter retry topics by what the group wants of the original topic.",
    "enableCalcFilterBitMap": "Evaluate SQL92 when a message arrives; needs "
    "`enableConsumeQueueExt`.",
    "notifyConsumerIdsChangedEnable": "Tell members of a group when others come and go.",
    "channelExpiredTimeout": "How long a client may be silent before it is forgotten, ms.",
    "useServerSideResetOffset": "An offset reset is done by the broker (5.x), not by its clients.",
    "flushConsumerOffsetInterval": "How often offsets of groups are saved, ms.",
    "storePathRootDir": "The store directory.",
    "flushDiskType": "`SYNC_FLUSH`: a send is acknowledged on the medium; `ASYNC_FLUSH`: once the "
    "system has it.",
    "mappedFileSizeCommitLog": "Size of a file of the commit log; of a new directory, bytes.",
    "mappedFileSizeConsumeQueue": "The same for consume queues.",
    "mapperFileSizeBatchConsumeQueue": "The same for batch consume queues.",
    "mappedFileSizeConsumeQueueExt": "The same for their extensions.",
    "enableConsumeQueueExt": "Write extensions of consume queues.",
    "maxHashSlotNum": "Slots of an index file.",
    "maxIndexNum": "Entries of an index file.",
    "fileReservedTime": "How long files of the log are kept, hours.",
    "deleteWhen": "The hour of the day at which expired files go.",
    "diskMaxUsedSpaceRatio": "Disk use, percent, from which expired files go at any hour.",
    "cleanResourceInterval": "How often to look whether files may go, ms.",
    "accessMessageInMemoryMaxRatio": "Which share of memory, percent, the end of the log is "
    "thought to be in.",
    "maxTransferBytesOnMessageInMemory": "Bytes of one pull, from there.",
    "maxTransferCountOnMessageInMemory": "Messages of one pull, from there.",
    "maxTransferBytesOnMessageInDisk": "Bytes of one pull, from further back.",
    "maxTransferCountOnMessageInDisk": "Messages of one pull, from further back.",
    "maxFilterMessageSize": "Bytes of a consume queue that one pull looks through.",
}

NAME_SERVER: Final = {
    "bindAddress": "The address to listen on.",
    "listenPort": "The port to listen on.",
    "kvConfigPath": "The file for what is put into the name server.",
    "orderMessageEnable": "Routes carry the fixed queues of ordered topics.",
    "returnOrderTopicConfigToBroker": "Brokers are told of ordered topics when they register.",
    "scanNotActiveBrokerInterval": "How often silent brokers are looked for, ms.",
    "supportActingMaster": "A slave may stand in for its master.",
    "deleteTopicWithBrokerRegistration": "Topics that a broker no longer names are forgotten.",
    "enableAllTopicList": "Serve the list of all topics.",
    "enableTopicList": "Serve the lists of topics of a cluster.",
    "needWaitForService": "Answer no route until brokers had time to register.",
    "waitSecondsForService": "How long that is, s.",
    "serverChannelMaxIdleTimeSeconds": "A connection without traffic for so long is closed, s.",
}
