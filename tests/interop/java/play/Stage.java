import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What one scenario works with: names of its own, clients that end with it, and its voice. */
final class Stage implements AutoCloseable {
    final String namesrv;
    private final String prefix;
    private final PrintStream out;
    private final Deque<Runnable> endings = new ArrayDeque<>();
    private DefaultMQAdminExt admin;
    private DefaultMQProducer producer;
    private DefaultMQPullConsumer puller;
    private int instances;
    private boolean stays;

    Stage(String namesrv, String prefix, PrintStream out) {
        this.namesrv = namesrv;
        this.prefix = prefix;
        this.out = out;
    }

    String name(String name) {
        return prefix + name;
    }

    /** A client id nobody else has, because clients with the same one share connections. */
    String instance() {
        return prefix + "i" + instances++;
    }

    void atEnd(Runnable ending) {
        endings.push(ending);
    }

    /** Keep all clients running when the scenario ends. */
    void stay() {
        stays = true;
    }

    @Override
    public void close() {
        if (stays) {
            return;
        }
        endings.forEach(Runnable::run);
    }

    synchronized void tell(String event, Object... pairs) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        for (int i = 0; i < pairs.length; i += 2) {
            line.put((String) pairs[i], pairs[i + 1]);
        }
        out.println(Json.write(line));
    }

    DefaultMQAdminExt admin() throws Exception {
        if (admin == null) {
            admin = new DefaultMQAdminExt(5_000);
            admin.setNamesrvAddr(namesrv);
            admin.setInstanceName(instance());
            admin.start();
            atEnd(admin::shutdown);
        }
        return admin;
    }

    DefaultMQProducer producer() throws Exception {
        if (producer == null) {
            producer = ready(new DefaultMQProducer(name("p")));
        }
        return producer;
    }

    /** A producer that is told where to go and started. */
    <P extends DefaultMQProducer> P ready(P made) throws Exception {
        made.setNamesrvAddr(namesrv);
        made.setInstanceName(instance());
        made.setSendMsgTimeout(10_000);
        made.start();
        atEnd(made::shutdown);
        return made;
    }

    DefaultMQPullConsumer puller() throws Exception {
        if (puller == null) {
            puller = new DefaultMQPullConsumer(name("u"));
            puller.setNamesrvAddr(namesrv);
            puller.setInstanceName(instance());
            puller.setBrokerSuspendMaxTimeMillis(1_000);
            puller.start();
            atEnd(puller::shutdown);
        }
        return puller;
    }

    /** A push consumer that reads a topic from its start; its listener is still to be given. */
    DefaultMQPushConsumer pusher(String group, String topic, String tags) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(name(group));
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(instance());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1_000); // to see a new retry topic soon
        // The client skips the heartbeat that tells of a rebalance while another is under way.
        // Until the next one brokers refuse its pulls: "subscription not latest".
        consumer.setHeartbeatBrokerInterval(5_000);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        if (topic != null) {
            consumer.subscribe(topic, tags);
        }
        atEnd(consumer::shutdown);
        return consumer;
    }

    String brokerAddress() throws Exception {
        return admin().examineBrokerClusterInfo().getBrokerAddrTable().values().iterator().next()
                .selectBrokerAddr();
    }

    String brokerName() throws Exception {
        return admin().examineBrokerClusterInfo().getBrokerAddrTable().keySet().iterator().next();
    }

    /** A new topic, once the name server knows it. */
    String topic(String name, int queues) throws Exception {
        String topic = name(name);
        admin().createAndUpdateTopicConfig(brokerAddress(), new TopicConfig(topic, queues, queues, 6));
        Calls.await("a route", () -> Calls.quietly(() -> routed(topic)) > 0);
        return topic;
    }

    long routed(String topic) throws Exception {
        return admin().examineTopicRouteInfo(topic).getQueueDatas().size();
    }

    Message message(String topic, String tags, String body) {
        return new Message(topic, tags, bytes(body));
    }

    SendResult send(String topic, String tags, String body) throws Exception {
        return producer().send(message(topic, tags, body));
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String body(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    /** How many messages a topic holds, or -1 while it cannot be told. */
    long stored(String topic) {
        return Calls.quietly(
                () -> {
                    long sum = 0;
                    for (MessageQueue queue : puller().fetchSubscribeMessageQueues(topic)) {
                        sum += puller().maxOffset(queue) - puller().minOffset(queue);
                    }
                    return sum;
                });
    }

    /** Every message of a topic, once it holds so many. */
    List<MessageExt> read(String topic, int count) throws Exception {
        Calls.await(count + " messages in " + topic, () -> stored(topic) >= count);
        List<MessageExt> found = new ArrayList<>();
        for (MessageQueue queue : puller().fetchSubscribeMessageQueues(topic)) {
            long stop = puller().maxOffset(queue);
            for (long at = puller().minOffset(queue); at < stop; ) {
                var pulled = puller().pull(queue, "*", at, 32);
                found.addAll(pulled.getMsgFoundList());
                at = pulled.getNextBeginOffset();
            }
        }
        return found;
    }

    static Object[] facts(MessageExt message) {
        return new Object[] {
            "topic", message.getTopic(),
            "queue", message.getQueueId(),
            "offset", message.getQueueOffset(),
            "body", body(message),
            "flag", message.getFlag(),
            "sysFlag", message.getSysFlag(),
            "times", message.getReconsumeTimes(),
            "msgId", message.getMsgId(),
            "bornAt", message.getBornTimestamp(),
            "storedAt", message.getStoreTimestamp(),
            "properties", new TreeMap<>(message.getProperties()),
        };
    }

    static Object[] facts(SendResult sent) {
        return new Object[] {
            "status", sent.getSendStatus().name(),
            "msgId", sent.getMsgId(),
            "offsetMsgId", sent.getOffsetMsgId(),
            "topic", sent.getMessageQueue().getTopic(),
            "broker", sent.getMessageQueue().getBrokerName(),
            "queue", sent.getMessageQueue().getQueueId(),
            "offset", sent.getQueueOffset(),
        };
    }

    /** Try what must be refused, and tell with which code and words. */
    void refused(String what, Calls.Step step) throws Exception {
        try {
            step.run();
            tell(what, "code", 0, "remark", "");
        } catch (MQBrokerException refused) {
            tell(what, "code", refused.getResponseCode(), "remark", refused.getErrorMessage());
        } catch (MQClientException refused) {
            tell(what, "code", refused.getResponseCode(), "remark", refused.getErrorMessage());
        }
    }
}
