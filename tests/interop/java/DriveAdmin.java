import java.net.InetSocketAddress;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Calls what the admin tools offer, once each. Calls a release does not have are told as failed. */
final class DriveAdmin {
    private final DefaultMQAdminExt admin;
    private final String broker;
    private final String prefix;

    DriveAdmin(DefaultMQAdminExt admin, String broker, String prefix) {
        this.admin = admin;
        this.broker = broker;
        this.prefix = prefix;
    }

    void all(String clientId, SendResult sent, String pullGroup) throws Exception {
        String topic = prefix + "t";
        String group = prefix + "g";
        messages(topic, group, clientId, sent);
        groups(topic, group, clientId, pullGroup);
        nameServer(topic);
        brokerCalls(topic);
        subscriptionGroups();
        deletions();
    }

    private void messages(String topic, String group, String clientId, SendResult sent)
            throws Exception {
        // The id names the broker's own port; the request must go through the proxy instead.
        MessageId id = MessageDecoder.decodeMessageId(sent.getOffsetMsgId());
        String[] hostAndPort = broker.split(":");
        String proxied =
                MessageDecoder.createMessageId(
                        new InetSocketAddress(hostAndPort[0], Integer.parseInt(hostAndPort[1])),
                        id.getOffset());
        long now = System.currentTimeMillis();
        MessageQueue queue = sent.getMessageQueue();
        call("viewMessage", topic, proxied);
        call("queryMessage", topic, "k1", 2, 0L, now + 60_000);
        call("queryMessage", topic, "no such key", 2, 0L, now + 60_000);
        call("searchOffset", queue, 0L);
        call("queryConsumeQueue", broker, topic, 0, 0L, 2, group);
        // The admin would send these two to the port the id names.
        Object impl = Calls.field(admin, "defaultMQAdminExtImpl");
        Object api = Calls.call(Calls.field(impl, "mqClientInstance"), "getMQClientAPIImpl");
        String msgId = sent.getOffsetMsgId();
        callOn(api, "consumeMessageDirectly", broker, group, clientId, topic, msgId, 5_000L);
        callOn(api, "consumeMessageDirectly", broker, group, clientId, msgId, 5_000L);
        callOn(api, "resumeCheckHalfMessage", broker, topic, msgId, 5_000L);
        callOn(api, "resumeCheckHalfMessage", broker, msgId, 5_000L);
    }

    private void groups(String topic, String group, String clientId, String pullGroup) {
        MessageQueue queue = new MessageQueue(topic, "broker-a", 0);
        call("examineTopicStats", topic);
        call("examineTopicStats", prefix + "missing");
        call("examineConsumeStats", group);
        call("examineConsumeStats", group, topic);
        call("examineConsumerConnectionInfo", group);
        call("examineConsumerConnectionInfo", prefix + "nobody");
        call("examineProducerConnectionInfo", prefix + "p", topic);
        call("examineProducerConnectionInfo", prefix + "nobody", topic);
        call("getAllProducerInfo", broker);
        call("getConsumerRunningInfo", group, clientId, false);
        call("getConsumerRunningInfo", group, "nobody", false);
        call("queryTopicConsumeByWho", topic);
        call("queryTopicsByConsumer", group);
        call("querySubscription", group, topic);
        call("queryConsumeTimeSpan", topic, group);
        call("fetchConsumeStatsInBroker", broker, false, 5_000L);
        call("getConsumeStatus", topic, group, "");
        call("cloneGroupOffset", pullGroup, prefix + "c", topic, false);
        call("updateConsumeOffset", broker, pullGroup, queue, 1L);
        call("resetOffsetByTimestamp", topic, group, 0L, true);
        call("resetOffsetByTimestamp", topic, prefix + "nobody", 0L, true);
        call("resetOffsetByTimestampOld", group, topic, 0L, true);
        call("updateAndGetGroupReadForbidden", broker, group, topic, true);
    }

    private void nameServer(String topic) {
        List<String> servers = admin.getNameServerAddressList();
        Properties change = new Properties();
        change.setProperty("clusterTest", "false");
        call("examineBrokerClusterInfo");
        call("examineTopicRouteInfo", topic);
        call("examineTopicRouteInfo", prefix + "missing");
        call("fetchAllTopicList");
        call("fetchTopicsByCLuster", "DefaultCluster");
        call("createAndUpdateKvConfig", prefix + "space", "k", "v");
        call("getKVConfig", prefix + "space", "k");
        call("getKVConfig", prefix + "space", "missing");
        call("getKVListByNamespace", prefix + "space");
        call("deleteKvConfig", prefix + "space", "k");
        call("createOrUpdateOrderConf", topic, "broker-a:1", false);
        call("updateNameServerConfig", change, servers);
        call("getNameServerConfig", servers);
        call("wipeWritePermOfBroker", servers.get(0), "broker-a");
        call("addWritePermOfBroker", servers.get(0), "broker-a");
    }

    private void brokerCalls(String topic) {
        Properties change = new Properties();
        change.setProperty("flushCommitLogTimed", "true");
        call("updateBrokerConfig", broker, change);
        call("getBrokerConfig", broker);
        call("fetchBrokerRuntimeStats", broker);
        call("viewBrokerStatsData", broker, "TOPIC_PUT_NUMS", topic);
        call("viewBrokerStatsData", broker, "TOPIC_PUT_NUMS", "missing");
        call("getAllTopicConfig", broker, 5_000L);
        call("examineTopicConfig", broker, topic);
        call("cleanExpiredConsumerQueueByAddr", broker);
        call("cleanUnusedTopicByAddr", broker);
        call("deleteExpiredCommitLogByAddr", broker);
    }

    private void subscriptionGroups() {
        Calls.step(
                "createAndUpdateSubscriptionGroupConfig",
                () -> {
                    var table = admin.getAllSubscriptionGroup(broker, 5_000);
                    var config = table.getSubscriptionGroupTable().values().iterator().next();
                    config.setGroupName(prefix + "made");
                    admin.createAndUpdateSubscriptionGroupConfig(broker, config);
                });
        call("examineSubscriptionGroupConfig", broker, prefix + "made");
        call("deleteSubscriptionGroup", broker, prefix + "made");
        call("deleteSubscriptionGroup", broker, prefix + "made", true);
    }

    private void deletions() {
        String topic = prefix + "gone";
        Set<String> servers = Set.copyOf(admin.getNameServerAddressList());
        call("deleteTopicInBroker", Set.of(broker), topic);
        call("deleteTopicInNameServer", servers, "DefaultCluster", topic);
        call("deleteTopicInNameServer", servers, topic);
    }

    private void call(String name, Object... args) {
        callOn(admin, name, args);
    }

    private static void callOn(Object target, String name, Object... args) {
        Calls.step(name, () -> Calls.call(target, name, args));
    }
}
