"""The numbers of the protocol: what a request asks for, and how an answer went.

Names are RocketMQ's own.  A peer may use numbers that are not listed here, so a code that
arrived stays a plain int until somebody compares it.  "5.x" marks what 4.9 does not know.
"""

from __future__ import annotations

from enum import IntEnum


class RequestCode(IntEnum):
    """What is asked for."""

    # Messages
    SEND_MESSAGE = 10  # take one message; long field names
    PULL_MESSAGE = 11  # give messages of a queue, or wait until there are some
    QUERY_MESSAGE = 12  # find messages by key or unique id
    VIEW_MESSAGE_BY_ID = 33  # give the one record at a log offset
    CONSUMER_SEND_MSG_BACK = 36  # a consumer failed on a message: deliver it again later
    END_TRANSACTION = 37  # commit or roll back a half message
    SEND_MESSAGE_V2 = 310  # take one message; one-letter field names
    SEND_BATCH_MESSAGE = 320  # take several messages of one topic; one-letter field names
    SEND_REPLY_MESSAGE = 324  # pass a reply to the producer that asked; long field names
    SEND_REPLY_MESSAGE_V2 = 325  # the same with one-letter field names
    LITE_PULL_MESSAGE = 361  # what a 5.x lite pull consumer sends in place of a pull
    RECALL_MESSAGE = 370  # 5.x: take a timed message back before it is due

    # Offsets
    QUERY_CONSUMER_OFFSET = 14  # how far a group is in a queue
    UPDATE_CONSUMER_OFFSET = 15  # a group got this far in a queue
    SEARCH_OFFSET_BY_TIMESTAMP = 29  # the queue offset at a time
    GET_MAX_OFFSET = 30  # where the next message of a queue will stand
    GET_MIN_OFFSET = 31  # the oldest message a queue still has
    GET_EARLIEST_MSG_STORETIME = 32  # when the oldest message of a queue was stored
    GET_ALL_CONSUMER_OFFSET = 43  # the offset table, for a slave
    GET_ALL_DELAY_OFFSET = 45  # the delay level table, for a slave

    # Clients of a broker
    HEART_BEAT = 34  # a client lives, and these are its groups and subscriptions
    UNREGISTER_CLIENT = 35  # a client leaves a group
    GET_CONSUMER_LIST_BY_GROUP = 38  # the client ids of a group
    LOCK_BATCH_MQ = 41  # lock queues for ordered consumption
    UNLOCK_BATCH_MQ = 42  # give such locks back
    CHECK_CLIENT_CONFIG = 46  # would this subscription be accepted
    GET_CLIENT_CONFIG = 47  # declared by RocketMQ, served by nobody
    QUERY_ASSIGNMENT = 400  # 5.x: let the broker assign queues
    SET_MESSAGE_REQUEST_MODE = 401  # 5.x: pull or pop for a group and topic
    GET_ALL_MESSAGE_REQUEST_MODE = 402  # 5.x: all such choices, for a slave

    # Asked by a broker of its clients
    CHECK_TRANSACTION_STATE = 39  # what became of this half message
    NOTIFY_CONSUMER_IDS_CHANGED = 40  # a group has new members: rebalance
    RESET_CONSUMER_CLIENT_OFFSET = 220  # go on from these offsets
    GET_CONSUMER_STATUS_FROM_CLIENT = 221  # how far are you in each queue
    GET_CONSUMER_RUNNING_INFO = 307  # tell all about yourself; comes from an admin
    CONSUME_MESSAGE_DIRECTLY = 309  # consume this one message now; comes from an admin
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326  # the reply to a request message

    # Pop consumption, 5.x
    POP_MESSAGE = 200050  # take messages of any queue and hide them for a while
    ACK_MESSAGE = 200051  # a popped message is done
    PEEK_MESSAGE = 200052  # look without taking
    CHANGE_MESSAGE_INVISIBLETIME = 200053  # hide a popped message for longer or shorter
    NOTIFICATION = 200054  # wait until there is something to pop
    POLLING_INFO = 200055  # how many pops wait
    BATCH_ACK_MESSAGE = 200151  # several popped messages are done

    # Name server
    PUT_KV_CONFIG = 100  # store a setting
    GET_KV_CONFIG = 101  # read a setting
    DELETE_KV_CONFIG = 102  # remove a setting
    REGISTER_BROKER = 103  # a broker lives and has these topics
    UNREGISTER_BROKER = 104  # a broker leaves
    GET_ROUTEINFO_BY_TOPIC = 105  # which brokers have a topic
    GET_BROKER_CLUSTER_INFO = 106  # all brokers by cluster
    WIPE_WRITE_PERM_OF_BROKER = 205  # make all queues of a broker read-only in routes
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206  # every topic
    DELETE_TOPIC_IN_NAMESRV = 216  # forget a topic
    REGISTER_TOPIC_IN_NAMESRV = 217  # 5.x: make a topic known
    GET_KVLIST_BY_NAMESPACE = 219  # all settings of a namespace
    GET_TOPICS_BY_CLUSTER = 224  # the topics of a cluster
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304  # cluster and broker names, which are topics too
    GET_UNIT_TOPIC_LIST = 311  # topics of units
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312  # topics with unit subscriptions
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313  # such topics that are not of units
    UPDATE_NAMESRV_CONFIG = 318  # change settings of the name server
    GET_NAMESRV_CONFIG = 319  # read them
    QUERY_DATA_VERSION = 322  # has a broker changed since it last registered
    ADD_WRITE_PERM_OF_BROKER = 327  # undo WIPE_WRITE_PERM_OF_BROKER
    GET_BROKER_MEMBER_GROUP = 901  # 5.x: the addresses of one broker name
    BROKER_HEARTBEAT = 904  # 5.x: a broker lives, and nothing else changed
    NOTIFY_MIN_BROKER_ID_CHANGE = 905  # 5.x, to a broker: another replica acts as master

    # Administration of topics
    UPDATE_AND_CREATE_TOPIC = 17  # create or change a topic
    UPDATE_AND_CREATE_TOPIC_LIST = 18  # 5.x: several at once
    GET_ALL_TOPIC_CONFIG = 21  # the topic table
    GET_TOPIC_STATS_INFO = 202  # offsets of every queue of a topic
    DELETE_TOPIC_IN_BROKER = 215  # remove a topic and its messages
    QUERY_TOPIC_CONSUME_BY_WHO = 300  # the groups of a topic
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305  # topics the broker made for itself
    CLEAN_UNUSED_TOPIC = 316  # drop queues of topics that are gone
    GET_TOPIC_CONFIG = 351  # 5.x: one entry of the topic table
    UPDATE_AND_CREATE_STATIC_TOPIC = 513  # 5.x: topics with logical queues

    # Administration of groups
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200  # create or change a group
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201  # the group table
    GET_CONSUMER_CONNECTION_LIST = 203  # who is connected for a consumer group
    GET_PRODUCER_CONNECTION_LIST = 204  # who is connected for a producer group
    DELETE_SUBSCRIPTIONGROUP = 207  # remove a group
    GET_CONSUME_STATS = 208  # the lag of a group
    INVOKE_BROKER_TO_RESET_OFFSET = 222  # move a group to a time or an offset
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223  # ask the clients of a group how far they are
    QUERY_CONSUME_TIME_SPAN = 303  # the times between which a group has to consume
    QUERY_CORRECTION_OFFSET = 308  # the least offsets of several groups
    CLONE_GROUP_OFFSET = 314  # copy the offsets of a group to another
    GET_BROKER_CONSUME_STATS = 317  # the lag of every group
    GET_ALL_PRODUCER_INFO = 328  # every connected producer
    QUERY_TOPICS_BY_CONSUMER = 343  # 5.x: the topics of a group
    QUERY_SUBSCRIPTION_BY_CONSUMER = 345  # 5.x: the subscription of a group
    GET_SUBSCRIPTIONGROUP_CONFIG = 352  # 5.x: one entry of the group table
    UPDATE_AND_GET_GROUP_FORBIDDEN = 353  # 5.x: may a group read a topic

    # Administration of the broker itself
    UPDATE_BROKER_CONFIG = 25  # change settings
    GET_BROKER_CONFIG = 26  # read them
    GET_BROKER_RUNTIME_INFO = 28  # figures of the running broker
    UPDATE_AND_CREATE_ACL_CONFIG = 50  # 4.9: change an account
    DELETE_ACL_CONFIG = 51  # 4.9: remove an account
    GET_BROKER_CLUSTER_ACL_INFO = 52  # 4.9: the version of the accounts
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = 53  # 4.9: addresses that need no account
    GET_BROKER_CLUSTER_ACL_CONFIG = 54  # 4.9: the accounts
    GET_TIMER_CHECK_POINT = 60  # 5.x: for a slave
    GET_TIMER_METRICS = 61  # 5.x: for a slave
    CLEAN_EXPIRED_CONSUMEQUEUE = 306  # drop consume queue files nobody needs
    VIEW_BROKER_STATS_DATA = 315  # one counter over a minute, an hour, a day
    QUERY_CONSUME_QUEUE = 321  # the entries of a consume queue
    RESUME_CHECK_HALF_MESSAGE = 323  # check a half message that was given up
    DELETE_EXPIRED_COMMITLOG = 329  # drop log files nobody needs
    EXCHANGE_BROKER_HA_INFO = 906  # 5.x: between replicas
    GET_BROKER_HA_STATUS = 907  # 5.x: how far the replicas are
    RESET_MASTER_FLUSH_OFFSET = 908  # 5.x: between replicas
    UPDATE_COLD_DATA_FLOW_CTR_CONFIG = 2001  # 5.x: slow down readers of old data
    REMOVE_COLD_DATA_FLOW_CTR_CONFIG = 2002  # 5.x: and stop doing so
    GET_COLD_DATA_FLOW_CTR_INFO = 2003  # 5.x: who is slowed down
    SET_COMMITLOG_READ_MODE = 2004  # 5.x: read-ahead of log files
    AUTH_CREATE_USER = 3001  # 5.3: users and their rights, here and below
    AUTH_UPDATE_USER = 3002  # 5.3
    AUTH_DELETE_USER = 3003  # 5.3
    AUTH_GET_USER = 3004  # 5.3
    AUTH_LIST_USER = 3005  # 5.3
    AUTH_CREATE_ACL = 3006  # 5.3
    AUTH_UPDATE_ACL = 3007  # 5.3
    AUTH_DELETE_ACL = 3008  # 5.3
    AUTH_GET_ACL = 3009  # 5.3
    AUTH_LIST_ACL = 3010  # 5.3


class ResponseCode(IntEnum):
    """How it went.  Never judge by the remark: some successes carry the text of a failure."""

    SUCCESS = 0  # done
    SYSTEM_ERROR = 1  # anything that has no code of its own
    SYSTEM_BUSY = 2  # flow control: try again, perhaps elsewhere
    REQUEST_CODE_NOT_SUPPORTED = 3  # nobody serves that code
    TRANSACTION_FAILED = 4  # declared, not seen

    FLUSH_DISK_TIMEOUT = 10  # stored, but not on disk in time
    SLAVE_NOT_AVAILABLE = 11  # 4.9: stored, but no slave is there to take it
    FLUSH_SLAVE_TIMEOUT = 12  # stored, but a slave was late
    MESSAGE_ILLEGAL = 13  # a message that is too long or has a bad property
    SERVICE_NOT_AVAILABLE = 14  # not writable: disk full, a slave, shutting down
    VERSION_NOT_SUPPORTED = 15  # declared, not seen
    NO_PERMISSION = 16  # topic, group, broker or account may not
    TOPIC_NOT_EXIST = 17  # from broker and name server alike
    TOPIC_EXIST_ALREADY = 18  # declared, not seen
    PULL_NOT_FOUND = 19  # no message yet
    PULL_RETRY_IMMEDIATELY = 20  # messages, but none that match
    PULL_OFFSET_MOVED = 21  # no such offset; the answer says where to go on
    QUERY_NOT_FOUND = 22  # no offset, no message, no setting
    SUBSCRIPTION_PARSE_FAILED = 23  # a filter expression that cannot be read
    SUBSCRIPTION_NOT_EXIST = 24  # the group has not subscribed to the topic
    SUBSCRIPTION_NOT_LATEST = 25  # the pull knows a newer subscription than the broker
    SUBSCRIPTION_GROUP_NOT_EXIST = 26  # no such group
    FILTER_DATA_NOT_EXIST = 27  # the broker has no filter for the subscription yet
    FILTER_DATA_NOT_LATEST = 28  # the broker's filter is older than the subscription
    INVALID_PARAMETER = 29  # 5.3.2 on; earlier 1 or 13

    TRANSACTION_SHOULD_COMMIT = 200  # declared, not seen
    TRANSACTION_SHOULD_ROLLBACK = 201  # declared, not seen
    TRANSACTION_STATE_UNKNOW = 202  # declared, not seen
    TRANSACTION_STATE_GROUP_WRONG = 203  # declared, not seen
    NO_BUYER_ID = 204  # a producer tries again elsewhere
    NOT_IN_CURRENT_UNIT = 205  # a producer tries again elsewhere
    CONSUMER_NOT_ONLINE = 206  # no client of the group is connected
    CONSUME_MSG_TIMEOUT = 207  # the client did not answer in time
    NO_MESSAGE = 208  # declared, not seen
    POLLING_FULL = 209  # too many pops wait; 4.9: an account was not changed
    POLLING_TIMEOUT = 210  # nothing to pop in time; 4.9: an account was not removed
    BROKER_NOT_EXIST = 211  # 4.9: white addresses were not changed
    BROKER_DISPATCH_NOT_COMPLETE = 212  # 5.x: the queues are still behind the log
    BROADCAST_CONSUMPTION = 213  # 5.x: the group is a broadcasting one
    FLOW_CONTROL = 215  # pull again in a moment

    NOT_LEADER_FOR_QUEUE = 501  # static topics: ask another broker
    ILLEGAL_OPERATION = 604  # a commit or rollback that comes too late
    GO_AWAY = 1500  # the server shuts down: connect elsewhere

    RPC_UNKNOWN = -1000  # between brokers, here and below
    RPC_ADDR_IS_NULL = -1002  # between brokers
    RPC_SEND_TO_CHANNEL_FAILED = -1004  # between brokers
    RPC_TIME_OUT = -1006  # between brokers

    CONTROLLER_FENCED_MASTER_EPOCH = 2000  # 5.x controllers, here and below: an old master
    CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH = 2001  # an old set of replicas
    CONTROLLER_INVALID_MASTER = 2002  # not the master
    CONTROLLER_INVALID_REPLICAS = 2003  # unknown replicas
    CONTROLLER_MASTER_NOT_AVAILABLE = 2004  # no master
    CONTROLLER_INVALID_REQUEST = 2005  # a request that makes no sense
    CONTROLLER_BROKER_NOT_ALIVE = 2006  # the broker is gone
    CONTROLLER_NOT_LEADER = 2007  # ask the leader
    CONTROLLER_BROKER_METADATA_NOT_EXIST = 2008  # nothing known of the broker
    CONTROLLER_INVALID_CLEAN_BROKER_METADATA = 2009  # still alive, so not cleaned
    CONTROLLER_BROKER_NEED_TO_BE_REGISTERED = 2010  # register first
    CONTROLLER_MASTER_STILL_EXIST = 2011  # the old master lives
    CONTROLLER_ELECT_MASTER_FAILED = 2012  # no master was found
    CONTROLLER_ALTER_SYNC_STATE_SET_FAILED = 2013  # the set of replicas stays
    CONTROLLER_BROKER_ID_INVALID = 2014  # a wrong broker id
    CONTROLLER_JRAFT_INTERNAL_ERROR = 2015  # an error inside
    CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS = 2016  # no sign of life known

    USER_NOT_EXIST = 3001  # 5.3: user administration
    POLICY_NOT_EXIST = 3002  # 5.3: user administration
