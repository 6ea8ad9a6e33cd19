"""What every setting is for, in the words of docs/reference/configuration.md.

Names, types, defaults and bounds come from the code (`reference_pages`); a test holds that the two
name the same settings.
"""

from __future__ import annotations

from typing import Final

CLIENT: Final = {
    "namesrv": "The name servers, `host:port`, several with `;` between them. Without it "
    "`NAMESRV_ADDR`, which is read when the client starts.",
    "namespace": "A prefix of the names of topics and groups on the wire; the program does not "
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
    "route_ms": "How often routes are refreshed from the name servers.",
    "heartbeat_ms": "How often heartbeats are sent; brokers drop a silent client after 120 s.",
    "call_timeout_ms": "The timeout of calls that have none of their own.",
    "connect_ms": "How long an attempt to connect may take, TLS included.",
    "start_timeout_ms": "How long the start of a push consumer or an app waits for a name server "
    "that does not answer yet; 0 fails at once. Programs of one deployment start in any order, and "
    "a name server on a JVM takes 5 to 20 s. Other clients ask nothing at their start.",
    "request_hooks": "See every request before it leaves, may change it, and see its answer.",
}

PRODUCER: Final = {
    "retries": "Further tries of a send that was refused. A broker that is away or busy is waited "
    "for until the timeout of the send, whatever the number; 0 tries once and waits for nothing.",
    "retry_unsafe": "Send again what was stored, but not flushed or copied in time.",
    "avoid_slow": "Avoid brokers for a while that were slow or failed: by the table of RocketMQ "
    "`4.9`, by that of `5.x`, which is shorter, or `off`.",
    "message_bytes_max": "The largest body. Brokers have a limit of their own.",
    "batch_bytes_max": "The largest request of `send_batch`; more is sent in several.",
    "compress_from_bytes": "Bodies from this size on are compressed, if that makes them smaller.",
    "compression": "How: `zlib`; `lz4` and `zstd` need flintmq[compression] and consumers of 5.x.",
    "compression_level": "0 to 9.",
    "default_queue_count": "Queues to ask for when a topic is created by its first message.",
    "in_flight_max": "Messages of `send_async` in flight at once; the next one waits.",
    "auto_batch": "Small messages of `send_async` share requests while others are in flight.",
    "send_hooks": "See every try to send, and how it was answered.",
    "trace": "Write a trace of every stored message to RocketMQ's trace topic.",
    "trace_topic": "Write traces to this topic instead.",
    "metrics": "Count and time sends in this `ClientMetrics`, see "
    "[metrics](../metrics.md#producers-and-consumers).",
}

PUSH: Final = {
    "model": "`clustering`: each message to one member of the group. `broadcasting`: each message "
    "to every member, and none is sent back.",
    "ordered": "Messages of a queue one after the other. A listener may choose for its topic.",
    "start_from": "Where a group starts that has no offset yet. `last`: RocketMQ's rule, the end, "
    "but all of a young queue, whose first message is still in the broker's memory. `end` or "
    "`latest`: the end. `first`, `earliest` or `start`: the oldest message. A datetime, an "
    "ISO 8601 time or milliseconds since 1970; an offset; `timestamp` for the time in "
    "`start_at_ms`.",
    "start_at_ms": "The time for `timestamp`, milliseconds since 1970; half an hour ago without.",
    "batch_max": "Messages a listener gets at once, at most. A listener may choose for its topic.",
    "threads_min": "Threads that are kept for listeners.",
    "threads_max": "Listeners that run at once, on threads or as coroutines.",
    "span_max": "How far apart the offsets of unconsumed messages of one queue may be; not in "
    "ordered consumption.",
    "queue_count_max": "Messages of one queue that may wait for listeners.",
    "queue_mib_max": "The same in MiB.",
    "topic_count_max": "The same for a topic: divided among the queues that this member has.",
    "topic_mib_max": "The same in MiB.",
    "pull_interval_ms": "The pause between a pull that found messages and the next one.",
    "pull_batch_max": "Messages to ask for in one pull; a broker of RocketMQ gives 32.",
    "pull_bytes_max": "Bytes to ask for in one pull.",
    "pull_error_delay_ms": "The pause after a pull that failed.",
    "retry_max": "How often a message is redelivered before it is a dead letter. Default: 16, and "
    "without limit in ordered consumption.",
    "ordered_suspend_ms": "How long an ordered queue is suspended after a failure.",
    "consume_timeout_ms": "A message whose listener has not returned by then is sent back.",
    "commit_interval_ms": "How often offsets are committed to the broker.",
    "rebalance_interval_ms": "How often queues are assigned again; also when members change.",
    "mode": "`pull`: queues of one's own. `pop`: the broker hands messages out, see "
    "[pop consumption](../consumer.md#11-pop-the-broker-hands-messages-out). `broker`: what is set "
    "there for group and topic (`flintmq group set-mode`).",
    "invisible_ms": "How long a popped message is hidden from others; it is renewed while a "
    "listener runs.",
    "unacked_max": "Messages popped at one broker that are not settled yet; more are not popped.",
    "sends_subscription": "Every pull carries its subscription.",
    "unit_mode": "For RocketMQ's deployments in units.",
    "on_bad_record": "A message that cannot be decoded: `dead_letter` has the broker copy it to "
    "the group's dead letters, `skip` passes it over, `stop` ends the queue. Without it dead "
    "letters, in broadcasting `skip`.",
    "strategy": "How queues are assigned to members: one of `flintmq.allocate_averagely`, "
    "`allocate_by_circle`, … or your own; the same in all members.",
    "on_conflict": "When members of the group subscribe to something else: `error` refuses the "
    "start, `warn` logs it.",
    "on_queues": "Called on the event loop when queues are assigned or revoked; it must not block.",
    "consume_hooks": "See every call of a listener, before and after.",
    "filter_hooks": "See the messages of a pull and return those that are wanted; the others count "
    "as consumed.",
    "trace": "Write a trace of every call of a listener to RocketMQ's trace topic.",
    "trace_topic": "Write traces to this topic instead.",
    "metrics": "Count messages and time listeners in this `ClientMetrics`, see "
    "[metrics](../metrics.md#producers-and-consumers).",
    "offset_store": "A store of your own for offsets, in place of the broker or of the file.",
    "offsets_dir": "Where broadcasting consumers keep their file; `~/.rocketmq_offsets` without.",
}

PULL: Final = {
    "model": "`clustering`: queues are divided among members. `broadcasting`: every member reads "
    "all.",
    "strategy": "How queues are assigned, as for push consumers.",
    "commit_interval_ms": "How often offsets that were updated are stored.",
    "rebalance_interval_ms": "How often queues are assigned again.",
    "retry_max": "How often a message may be sent back before it is a dead letter.",
    "hold_ms": "How long a broker may hold a pull that finds nothing.",
    "hold_timeout_ms": "How long to wait for the answer to such a pull; more than `hold_ms`.",
    "pull_timeout_ms": "How long to wait for the answer to a pull that is not held.",
    "unit_mode": "For RocketMQ's deployments in units.",
    "on_bad_record": "A message that cannot be decoded: `skip` passes it over, `stop` ends the "
    "queue with `UndecodableRecord`.",
    "consume_hooks": "See each pull or poll that brought messages, and what is committed and sent "
    "back: [traces](../metrics.md#traces).",
    "metrics": "Count messages and time pulls in this `ClientMetrics`, see "
    "[metrics](../metrics.md#producers-and-consumers).",
    "offset_store": "A store of your own for offsets.",
    "offsets_dir": "Where a broadcasting consumer keeps its file.",
}

SIMPLE: Final = {
    "start_from": "Where a group starts that has no offset yet: `first` or `last`.",
    "on_bad_record": "A message that cannot be decoded: `dead_letter` copies it to `%DLQ%group`, "
    "`skip` passes it over.",
}

LITE: Final = {
    "start_from": "Where a group starts that has no offset yet, as for push consumers.",
    "start_at_ms": "The time for `timestamp`; half an hour ago without.",
    "auto_commit": "A batch counts as consumed when the next one is polled, and is committed.",
    "auto_commit_ms": "How often it is committed.",
    "pull_batch_max": "Messages to ask for in one pull.",
    "queue_count_max": "Messages of one queue that are pulled ahead.",
    "queue_mib_max": "The same in MiB.",
    "total_count_max": "Messages of all queues together.",
    "span_max": "How far apart the offsets of one queue may be that are pulled ahead.",
    "pull_error_delay_ms": "The pause after a pull that failed.",
    "trace": "Write a trace of every message that `poll` returns.",
    "trace_topic": "Write traces to this topic instead.",
}

SCHEDULED: Final = {"threads": "Plain functions that run at once."}

BROKER: Final = {
    "aclEnable": "Access control by accounts of plain_acl.yml (ACL 1.0).",
    "authenticationEnabled": "Access control by users and policies (ACL 2.0), together with "
    "authorizationEnabled.",
    "authorizationEnabled": "See authenticationEnabled.",
    "initAuthenticationUser": "A super user to make where there is none, as JSON with "
    "`username` and `password`.",
    "innerClientAuthenticationCredentials": "The account that signs what the broker sends to name "
    "servers, as JSON with `accessKey` and `secretKey`.",
    "brokerName": "The name of the broker in its cluster.",
    "brokerClusterName": "The cluster it belongs to.",
    "brokerId": "0 for a master; a slave has a number above 0.",
    "brokerRole": "ASYNC_MASTER, SYNC_MASTER or SLAVE.",
    "haListenPort": "Where slaves fetch the log; 0 is one above listenPort, "
    "which SYNC_MASTER and SLAVE have by default.",
    "haTransferBatchSize": "Bytes of the log in one frame to a slave.",
    "haSendHeartbeatInterval": "Milliseconds after which either side says something.",
    "haHousekeepingInterval": "Milliseconds of silence after which the other side is gone.",
    "haAllowedSlaves": "Ours. Addresses and networks that slaves may come from, separated by "
    "commas; those that name servers know need not be here.",
    "slaveTimeout": "Milliseconds a send of a SYNC_MASTER waits for slaves.",
    "inSyncReplicas": "Copies of a message, the master's own counted, that a SYNC_MASTER waits "
    "for; RocketMQ 5 has 1, which waits for nobody.",
    "enableAutoInSyncReplicas": "A send waits for the slaves that are in sync, where they are "
    "fewer than inSyncReplicas.",
    "minInSyncReplicas": "Copies that are waited for even then.",
    "haFlowControlEnable": "A slave is sent maxHaTransferByteInSecond bytes in a second at most.",
    "maxHaTransferByteInSecond": "Bytes of the log for one slave in a second, with flow control.",
    "haMasterAddress": "host:port of the master's HA port, for a slave that no name server tells.",
    "offsetCheckInSlave": "A slave corrects offsets that it does not have, as a master does.",
    "enableSlaveActingMaster": "A slave may take the place of its master for consumers, see "
    "[replication](../replication.md#a-slave-that-acts-as-the-master).",
    "brokerHeartbeatInterval": "How often brokers with enableSlaveActingMaster tell their name "
    "servers that they live, ms.",
    "brokerNotActiveTimeoutMillis": "How long such a broker may be silent before name servers take "
    "it for gone, ms.",
    "metricsExporterType": "`PROM` serves [metrics](../metrics.md); `DISABLE` does not. RocketMQ's "
    "other exporters are refused.",
    "metricsPromExporterHost": "Where metrics are served; 127.0.0.1 unless set.",
    "metricsPromExporterPort": "The port of that; 5557 unless set.",
    "metricsLabel": "Labels for every metric: `name:value,name:value`.",
    "brokerIP1": "The advertised host: where clients connect to.",
    "bindAddress": "The address to listen on.",
    "listenPort": "The port to listen on.",
    "namesrvAddr": "The name servers to register at, with `;` between them.",
    "registerNameServerPeriod": "How often to register, ms.",
    "registerBrokerTimeoutMills": "How long a registration may take, ms.",
    "regionId": "A name that goes with every message.",
    "brokers": "How many broker processes `flintmq serve` runs, each in a directory of its own.",
    "brokerPermission": "4 to read, 2 to write, 6 for both.",
    "autoCreateTopicEnable": "A topic is created by its first message.",
    "autoCreateSubscriptionGroup": "A group is created by its first member.",
    "defaultTopicQueueNums": "The most queues of a topic that is created by its first message.",
    "traceTopicEnable": "Create the trace topic at the start.",
    "topicsMax": "Topics that clients and tools may create. Ours.",
    "groupsMax": "Consumer groups that clients and tools may create. Ours.",
    "topicQueuesMax": "Queues of a topic that tools may create; existing ones stay. Ours.",
    "groupMembersMax": "Members of a group that share its queues. Ours.",
    "namesPerAddressMax": "New topics and groups that one address may make in an hour. Ours.",
    "connectionsMax": "Connections of all clients at the broker's port and its fast port. Ours.",
    "connectionsPerAddressMax": (
        "Connections of one address; 0 is half of all, and no less than 1,000. Ours."
    ),
    "requestsPerSecondMax": "Requests a second of one address; 0 is no limit. Ours.",
    "quotas": (
        "What accounts and groups may send and consume a second, as `account:alice send 1000/s "
        "1MiB/s; group:* consume 10MiB/s`. Ours."
    ),
    "partialFrameBytesMax": "What all connections may hold of incomplete frames. Ours.",
    "unreadBytesMax": "What all connections may leave unread of their answers. Ours.",
    "unreadBytesPerConnectionMax": "What one connection may leave unread. Ours.",
    "heldPullsMax": "Pulls that may be held at once. Ours.",
    "heldPullsPerConnectionMax": (
        "Pulls of one connection that may be held; 0 is a quarter of all, and no less than 1,000. "
        "Ours."
    ),
    "startAcceptSendRequestTimeStamp": "Refuse sends before this time, ms since 1970.",
    "maxMessageSize": "The largest body, bytes.",
    "traceOn": "Ask clients for traces.",
    "storeReplyMessageEnable": "Store replies to request messages too.",
    "messageDelayLevel": "The delays of the levels, from level 1 on.",
    "timerWheelEnable": "Serve messages that ask for a time of delivery.",
    "timerMaxDelaySec": "The latest such time from now, s.",
    "recallMessageEnable": "Let producers take timer messages back before their time.",
    "rejectTransactionMessage": "Refuse half messages.",
    "transactionTimeOut": "How old a half message is before its producer is asked, ms.",
    "transactionCheckMax": "How often it is asked.",
    "transactionCheckInterval": "How often half messages are checked, ms.",
    "longPollingEnable": "Hold a pull that finds nothing for as long as its client allows.",
    "shortPollingTimeMills": "Without long polling: how long to hold it, ms.",
    "slaveReadEnable": "Send clients that lag far behind to a slave.",
    "litePullMessageEnable": "Serve lite pull.",
    "enableRetryTopicV2": "Popped messages come back through `%RETRY%group+topic`, not "
    "`%RETRY%group_topic`; both are read.",
    "popFromRetryProbability": "Of a hundred pops, how many look at the retry topic first.",
    "popPollingSize": "Pops of one topic, group and queue that may be held at once.",
    "maxPopPollingSize": "Pops that may be held at once.",
    "reviveQueueNum": "Queues of the revive topic.",
    "defaultMessageRequestMode": "How a group takes a topic where nobody said it: `PULL` or `POP`.",
    "defaultPopShareQueueNum": "With `POP`: members whose queues one takes beside its own; 0 is "
    "all queues.",
    "serverLoadBalancerEnable": "Share queues out to who asks the broker for them; else everybody "
    "gets all.",
    "enablePropertyFilter": "Serve SQL92 subscriptions.",
    "filterSupportRetry": "Filter retry topics by what the group wants of the original topic.",
    "enableCalcFilterBitMap": "Evaluate SQL92 when a message arrives; needs "
    "`enableConsumeQueueExt`.",
    "notifyConsumerIdsChangedEnable": "Notify members of a group when others join or leave.",
    "channelExpiredTimeout": "How long a client may be silent before it is dropped, ms.",
    "useServerSideResetOffset": "An offset reset is done by the broker (5.x), not by its clients.",
    "flushConsumerOffsetInterval": "How often offsets of groups are saved, ms.",
    "storePathRootDir": "The store directory.",
    "flushDiskType": "`SYNC_FLUSH`: a send is acknowledged once it is fsynced; `ASYNC_FLUSH`: once "
    "it is in the page cache.",
    "mappedFileSizeCommitLog": "Size of a file of the commit log; of a new directory, bytes.",
    "mappedFileSizeConsumeQueue": "The same for consume queues.",
    "mapperFileSizeBatchConsumeQueue": "The same for batch consume queues.",
    "mappedFileSizeConsumeQueueExt": "The same for their extensions.",
    "enableConsumeQueueExt": "Write extensions of consume queues.",
    "enabledAppendPropCRC": "Give every record a checksum over all of it, 20 bytes.",
    "maxHashSlotNum": "Slots of an index file.",
    "maxIndexNum": "Entries of an index file.",
    "enableLmq": "Serve light queues; needs `enableMultiDispatch`.",
    "enableMultiDispatch": "Put a message into the light queues that it names; needs `enableLmq`.",
    "maxLmqConsumeQueueNum": "How many light queues there may be.",
    "scrubBytesPerSecond": "How much of the log is checked again each second; 0 is none.",
    "fileReservedTime": "How long files of the log are kept, hours.",
    "deleteWhen": "The hour of the day at which expired files are deleted.",
    "diskMaxUsedSpaceRatio": "Disk use, percent, above which expired files are deleted at once.",
    "cleanResourceInterval": "How often to check for expired files, ms.",
    "accessMessageInMemoryMaxRatio": "How much of the end of the log is taken to be in memory, as "
    "a share of it, percent.",
    "maxTransferBytesOnMessageInMemory": "Bytes of one pull, from memory.",
    "maxTransferCountOnMessageInMemory": "Messages of one pull, from memory.",
    "maxTransferBytesOnMessageInDisk": "Bytes of one pull, from further back.",
    "maxTransferCountOnMessageInDisk": "Messages of one pull, from further back.",
    "maxFilterMessageSize": "Bytes of a consume queue that one pull looks through.",
}

NAME_SERVER: Final = {
    "bindAddress": "The address to listen on.",
    "listenPort": "The port to listen on.",
    "kvConfigPath": "The file of the settings that are put into the name server.",
    "orderMessageEnable": "Routes carry the fixed queues of ordered topics.",
    "returnOrderTopicConfigToBroker": "Brokers learn of ordered topics when they register.",
    "scanNotActiveBrokerInterval": "How often to check for silent brokers, ms.",
    "supportActingMaster": "A slave may stand in for its master.",
    "deleteTopicWithBrokerRegistration": "Topics that a broker no longer registers are removed.",
    "enableAllTopicList": "Serve the list of all topics.",
    "enableTopicList": "Serve the lists of topics of a cluster.",
    "needWaitForService": "Answer no route until brokers had time to register.",
    "waitSecondsForService": "How long that is, s.",
    "serverChannelMaxIdleTimeSeconds": "After how long a connection without traffic is closed, s.",
}
