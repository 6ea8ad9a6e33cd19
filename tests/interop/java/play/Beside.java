import java.util.Collection;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A member of a group that clients of other makes belong to as well.
 *
 * <p>There is one at a time. It stays when the scenario that made it ends, and leaves when told.
 * The topic is made by the others.
 */
final class Beside {
    private static final int RETRIES = 2;
    private static final long SOON_MS = 1_000;

    private static Beside current;

    private final String topic;
    private final Seen seen = new Seen();
    private Callable<Collection<MessageQueue>> queues;
    private Runnable leaving;

    private Beside(Stage stage) {
        stage.stay();
        topic = stage.name("t");
        current = this;
    }

    static void join(Stage stage) throws Exception {
        Beside member = new Beside(stage);
        DefaultMQPushConsumer consumer = stage.pusher("g", member.topic, "*");
        consumer.registerMessageListener(member.seen.concurrently());
        member.start(stage, consumer);
    }

    static void joinOrderly(Stage stage) throws Exception {
        Beside member = new Beside(stage);
        DefaultMQPushConsumer consumer = stage.pusher("g", member.topic, "*");
        consumer.registerMessageListener(member.seen.orderly());
        member.start(stage, consumer);
    }

    /** It fails with every message, and gives up after two tries more. */
    static void joinFailing(Stage stage) throws Exception {
        Beside member = new Beside(stage);
        DefaultMQPushConsumer consumer = stage.pusher("g", member.topic, "*");
        consumer.setMaxReconsumeTimes(RETRIES);
        consumer.registerMessageListener(member.seen.failing());
        member.start(stage, consumer);
    }

    /** It leaves to the broker whether it pulls or pops; only clients of 5.x can. */
    static void joinPopping(Stage stage) throws Exception {
        Beside member = new Beside(stage);
        DefaultMQPushConsumer consumer = stage.pusher("g", member.topic, "*");
        consumer.getClass()
                .getMethod("setClientRebalance", boolean.class)
                .invoke(consumer, false);
        consumer.registerMessageListener(member.seen.concurrently());
        member.start(stage, consumer);
    }

    static void joinNamespaced(Stage stage) throws Exception {
        Beside member = new Beside(stage);
        DefaultMQPushConsumer consumer = stage.pusher("g", null, null);
        consumer.setNamespace("ns");
        consumer.subscribe(member.topic, "*");
        consumer.registerMessageListener(member.seen.concurrently());
        member.start(stage, consumer);
    }

    /** Its client id is always the same, so that it finds its offsets again. */
    static void joinBroadcast(Stage stage) throws Exception {
        Beside member = new Beside(stage);
        DefaultMQPushConsumer consumer = stage.pusher("g", member.topic, "*");
        consumer.setClientIP("127.0.0.1");
        consumer.setInstanceName("caster");
        Calls.setEnum(consumer, "setMessageModel", "BROADCASTING");
        consumer.registerMessageListener(member.seen.concurrently());
        member.start(stage, consumer);
    }

    static void joinLite(Stage stage) throws Exception {
        Beside member = new Beside(stage);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(stage.name("g"));
        consumer.setNamesrvAddr(stage.namesrv);
        consumer.setInstanceName(stage.instance());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommitIntervalMillis(SOON_MS);
        consumer.subscribe(member.topic, "*");
        consumer.start();
        Thread poller =
                new Thread(
                        () -> {
                            while (!Thread.currentThread().isInterrupted()) {
                                member.seen.add(consumer.poll(100));
                            }
                        });
        poller.setDaemon(true);
        poller.start();
        member.queues = consumer::assignment;
        member.leaving =
                () -> {
                    poller.interrupt();
                    consumer.shutdown();
                };
        stage.tell("joined", "id", consumer.buildMQClientId());
    }

    private void start(Stage stage, DefaultMQPushConsumer consumer) throws Exception {
        consumer.start();
        queues =
                () ->
                        consumer.getDefaultMQPushConsumerImpl()
                                .getRebalanceImpl()
                                .getProcessQueueTable()
                                .keySet();
        leaving = consumer::shutdown;
        stage.tell("joined", "id", consumer.buildMQClientId());
    }

    /** Which queues it has now, and what it was given. */
    static void soFar(Stage stage) throws Exception {
        TreeSet<Integer> held = new TreeSet<>();
        for (MessageQueue queue : current.queues.call()) {
            if (queue.getTopic().endsWith(current.topic)) {
                held.add(queue.getQueueId());
            }
        }
        stage.tell("holds", "queues", List.copyOf(held));
        current.seen.tell(stage, "seen");
    }

    static void leave(Stage stage) {
        current.leaving.run();
        current.seen.tell(stage, "seen");
    }

    /** Where an admin sees the group. */
    static void progress(Stage stage) throws Exception {
        stage.admin()
                .examineConsumeStats(stage.name("g"), stage.name("t"))
                .getOffsetTable()
                .forEach(
                        (queue, at) ->
                                stage.tell(
                                        "progress",
                                        "topic", queue.getTopic(),
                                        "queue", queue.getQueueId(),
                                        "broker", at.getBrokerOffset(),
                                        "consumer", at.getConsumerOffset()));
    }
}
