import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Uses a RocketMQ client in every way it offers, so that a proxy can record what it says.
 *
 * <p>Arguments: name server, broker address, a short prefix for all names, and what to do:
 * {@code all}, or {@code send} for a few sends only (used to try settings that a JVM reads once).
 */
public final class Drive {
    private final String namesrv;
    private final String prefix;
    private final String brokerName = "broker-a";
    private final DefaultMQAdminExt admin;
    private final DefaultMQProducer producer;
    private final DefaultMQPullConsumer puller;
    private final AtomicInteger consumed = new AtomicInteger();

    private Drive(String namesrv, String prefix) throws Exception {
        this.namesrv = namesrv;
        this.prefix = prefix;
        admin = new DefaultMQAdminExt(5_000);
        admin.setNamesrvAddr(namesrv);
        admin.setInstanceName(prefix + "adm");
        admin.start();
        producer = new DefaultMQProducer(prefix + "p");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(prefix + "pro");
        producer.start();
        puller = new DefaultMQPullConsumer(prefix + "u");
        puller.setNamesrvAddr(namesrv);
        puller.setInstanceName(prefix + "pul");
        puller.setBrokerSuspendMaxTimeMillis(1_000);
        puller.start();
    }

    public static void main(String[] args) throws Exception {
        Drive drive = new Drive(args[0], args[2]);
        drive.createTopic("t", args[1], 1, 6);
        if (args[3].equals("send")) {
            drive.send();
            drive.pull();
        } else {
            drive.all(args[1]);
        }
        drive.producer.shutdown();
        drive.puller.shutdown();
        drive.admin.shutdown();
        System.out.println("done");
        System.exit(0);
    }

    private void all(String broker) throws Exception {
        createTopic("w", broker, 2, 6);
        createTopic("gone", broker, 1, 4);
        Calls.step("send", this::send);
        MessageQueue missing = new MessageQueue(prefix + "t", brokerName, 99);
        Calls.step("send refused", () -> producer.send(message("t", "x"), missing));
        Calls.step("send to a new topic", () -> producer.send(message("new", "x")));
        Calls.step("pull", this::pull);
        Calls.step("lite pull", this::litePull);
        Calls.step("retry and dead letter", this::retry);
        Calls.step("orderly", this::orderly);
        Calls.step("sql92", () -> sql("a > 3 AND b IS NOT NULL"));
        Calls.step("sql92 refused", () -> sql("a >"));
        Calls.step("broadcast", this::broadcast);
        Calls.step("transaction", this::transact);
        Calls.step("request and reply", this::requestAndReply);
        consumed.set(0);
        DefaultMQPushConsumer first = pushConsumer("g", "g1", "t", "*");
        first.start();
        DefaultMQPushConsumer second = pushConsumer("g", "g2", "t", "*");
        second.start();
        SendResult sent = producer.send(message("t", "for the admin"));
        Calls.await("a delivery", () -> consumed.get() > 0);
        first.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        new DriveAdmin(admin, broker, prefix)
                .all(first.buildMQClientId(), sent, puller.getConsumerGroup());
        second.shutdown();
        first.shutdown();
    }

    private void createTopic(String name, String broker, int queues, int perm) {
        TopicConfig config = new TopicConfig(prefix + name, queues, queues, perm);
        Calls.step("create " + name, () -> admin.createAndUpdateTopicConfig(broker, config));
        Calls.step(
                "route of " + name,
                () -> Calls.await("a route", () -> Calls.quietly(() -> routed(prefix + name)) > 0));
    }

    private long routed(String topic) throws Exception {
        return admin.examineTopicRouteInfo(topic).getQueueDatas().size();
    }

    private void send() throws Exception {
        producer.send(message("t", "hello"));
        producer.sendOneway(message("t", "oneway"));
        producer.send(List.of(message("t", "one"), message("t", "two")));
        producer.send(message("t", "again and again ".repeat(300)));
        Message delayed = message("t", "later");
        delayed.setDelayTimeLevel(1);
        producer.send(delayed);
        Calls.await("the delayed message", () -> Calls.quietly(() -> end("t")) >= 6);
    }

    private void pull() throws Exception {
        MessageQueue queue = queue("t");
        long end = puller.maxOffset(queue);
        for (long offset = puller.minOffset(queue); offset < end; offset++) {
            puller.pull(queue, "*", offset, 1);
        }
        puller.pull(queue, "none", 0, 32);
        puller.pull(queue, "*", end + 1_000, 32);
        puller.pullBlockIfNotFound(queue, "*", end, 32);
        puller.searchOffset(queue, System.currentTimeMillis());
        puller.earliestMsgStoreTime(queue);
        puller.fetchConsumeOffset(queue, true);
        puller.updateConsumeOffset(queue, 1);
        puller.getOffsetStore().updateConsumeOffsetToBroker(queue, 1, false);
        puller.fetchConsumeOffset(queue, true);
        MessageExt found = puller.pull(queue, "*", 0, 1).getMsgFoundList().get(0);
        puller.sendMessageBack(found, 1, brokerName);
    }

    private void litePull() throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(prefix + "l");
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(prefix + "lit");
        consumer.setAutoCommit(false);
        consumer.subscribe(prefix + "t", "paid");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.start();
        AtomicInteger seen = new AtomicInteger();
        Calls.await("lite pull", () -> seen.addAndGet(consumer.poll(500).size()) > 0);
        Calls.call(consumer, "commitSync");
        consumer.shutdown();
    }

    private void retry() throws Exception {
        DefaultMQPushConsumer consumer = pushConsumer("r", "ret", "w", "*");
        consumer.setMaxReconsumeTimes(1);
        consumer.registerMessageListener(
                (MessageListenerConcurrently)
                        (messages, context) -> ConsumeConcurrentlyStatus.RECONSUME_LATER);
        consumer.start();
        producer.send(message("w", "fails"));
        MessageQueue dead = new MessageQueue("%DLQ%" + prefix + "r", brokerName, 0);
        Calls.await("a dead letter", () -> Calls.quietly(() -> puller.maxOffset(dead)) > 0);
        consumer.shutdown();
        puller.pull(dead, "*", 0, 1);
        puller.pull(new MessageQueue("%RETRY%" + prefix + "r", brokerName, 0), "*", 0, 1);
    }

    private void orderly() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        DefaultMQPushConsumer consumer = pushConsumer("o", "ord", "w", "*");
        consumer.setMaxReconsumeTimes(1);
        consumer.registerMessageListener(
                (MessageListenerOrderly)
                        (messages, context) -> {
                            context.setSuspendCurrentQueueTimeMillis(10);
                            calls.incrementAndGet();
                            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                        });
        consumer.start();
        producer.send(message("w", "in order"));
        Calls.await("given up in order", () -> calls.get() > 3);
        consumer.shutdown();
    }

    private void sql(String expression) throws Exception {
        consumed.set(0);
        DefaultMQPushConsumer consumer = pushConsumer("s", "sql", "w", "*");
        consumer.subscribe(prefix + "w", MessageSelector.bySql(expression));
        consumer.start();
        try {
            Calls.await("a sql92 match", () -> consumed.get() > 0);
        } finally {
            consumer.shutdown();
        }
    }

    private void broadcast() throws Exception {
        DefaultMQPushConsumer consumer = pushConsumer("b", "bro", "w", "paid || new");
        Calls.setEnum(consumer, "setMessageModel", "BROADCASTING");
        consumed.set(0);
        consumer.start();
        Calls.await(
                "a broadcast",
                () ->
                        Calls.quietly(
                                        () -> {
                                            producer.send(message("w", "to all"));
                                            return (long) consumed.get();
                                        })
                                > 0);
        consumer.shutdown();
    }

    private void transact() throws Exception {
        AtomicInteger checks = new AtomicInteger();
        TransactionMQProducer half = new TransactionMQProducer(prefix + "x");
        half.setNamesrvAddr(namesrv);
        half.setInstanceName(prefix + "tra");
        half.setTransactionListener(
                new TransactionListener() {
                    @Override
                    public LocalTransactionState executeLocalTransaction(Message m, Object wish) {
                        return (LocalTransactionState) wish;
                    }

                    @Override
                    public LocalTransactionState checkLocalTransaction(MessageExt message) {
                        checks.incrementAndGet();
                        return LocalTransactionState.COMMIT_MESSAGE;
                    }
                });
        half.start();
        producer.send(message("x", "first"));
        Calls.await("a topic", () -> Calls.quietly(() -> routed(prefix + "x")) > 0);
        for (LocalTransactionState wish : LocalTransactionState.values()) {
            half.sendMessageInTransaction(message("x", wish.name()), wish);
        }
        Calls.await("a transaction check", () -> checks.get() > 0);
        Calls.await("two commits", () -> Calls.quietly(() -> stored("x")) >= 3);
        for (MessageQueue queue : puller.fetchSubscribeMessageQueues(prefix + "x")) {
            for (long offset = 0; offset < puller.maxOffset(queue); offset++) {
                puller.pull(queue, "*", offset, 1);
            }
        }
        half.shutdown();
    }

    private void requestAndReply() throws Exception {
        createTopicQuietly("q");
        DefaultMQPushConsumer consumer = pushConsumer("q", "rep", "q", "*");
        consumer.registerMessageListener(
                (MessageListenerConcurrently)
                        (messages, context) -> {
                            try {
                                byte[] body = "answer".getBytes(StandardCharsets.UTF_8);
                                producer.send(MessageUtil.createReplyMessage(messages.get(0), body));
                            } catch (Exception failure) {
                                System.out.println("reply: " + failure);
                            }
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        consumer.start();
        Thread.sleep(2_000);
        try {
            producer.request(message("q", "question"), 5_000);
        } finally {
            consumer.shutdown();
        }
    }

    private void createTopicQuietly(String name) throws Exception {
        producer.send(message(name, "first"));
    }

    private DefaultMQPushConsumer pushConsumer(
            String group, String instance, String topic, String tags) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(prefix + group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(prefix + instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.subscribe(prefix + topic, tags);
        consumer.registerMessageListener(
                (MessageListenerConcurrently)
                        (messages, context) -> {
                            consumed.addAndGet(messages.size());
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        return consumer;
    }

    private Message message(String topic, String body) {
        Message message =
                new Message(prefix + topic, "paid", "k1 k2", body.getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("a", "5");
        message.putUserProperty("b", "grüße 消息 🚀");
        message.setFlag(3);
        return message;
    }

    private MessageQueue queue(String topic) {
        return new MessageQueue(prefix + topic, brokerName, 0);
    }

    private long end(String topic) throws Exception {
        return puller.maxOffset(queue(topic));
    }

    private long stored(String topic) throws Exception {
        long sum = 0;
        for (MessageQueue queue : puller.fetchSubscribeMessageQueues(prefix + topic)) {
            sum += puller.maxOffset(queue);
        }
        return sum;
    }
}
