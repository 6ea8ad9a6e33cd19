import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Members that come and go, and offsets that are moved under them. */
final class Groups {
    private static final int QUEUES = 4;

    private Groups() {}

    /** The client looks for changes every 20 s by itself; a change seen sooner was notified. */
    static void membership(Stage stage) throws Exception {
        String topic = stage.topic("t", QUEUES);
        Seen first = new Seen();
        Seen second = new Seen();
        DefaultMQPushConsumer staying = stage.pusher("g", topic, "*");
        staying.registerMessageListener(first.concurrently());
        staying.start();
        awaitQueues(stage, "alone", topic, List.of(staying));
        DefaultMQPushConsumer leaving = stage.pusher("g", topic, "*");
        leaving.registerMessageListener(second.concurrently());
        leaving.start();
        awaitQueues(stage, "joined", topic, List.of(staying, leaving));
        sendToEach(stage, topic, "shared");
        Calls.await("all shared", () -> first.count() + second.count() >= QUEUES);
        first.tell(stage, "seen by staying");
        second.tell(stage, "seen by leaving");
        leaving.shutdown();
        awaitQueues(stage, "left", topic, List.of(staying));
        sendToEach(stage, topic, "alone again");
        Calls.await("all alone", () -> first.different() + second.count() >= 2 * QUEUES);
        first.tell(stage, "seen by staying in all");
    }

    /** Two orderly members share the queues without giving a message twice or out of order. */
    static void orderlyMembership(Stage stage) throws Exception {
        String topic = stage.topic("t", QUEUES);
        Seen seen = new Seen();
        DefaultMQPushConsumer staying = stage.pusher("g", topic, "*");
        staying.registerMessageListener(seen.orderly());
        staying.start();
        sendToEach(stage, topic, "0");
        seen.await(QUEUES);
        DefaultMQPushConsumer leaving = stage.pusher("g", topic, "*");
        leaving.registerMessageListener(seen.orderly());
        leaving.start();
        awaitQueues(stage, "joined", topic, List.of(staying, leaving));
        sendToEach(stage, topic, "1");
        seen.await(2 * QUEUES);
        leaving.shutdown();
        awaitQueues(stage, "left", topic, List.of(staying));
        sendToEach(stage, topic, "2");
        seen.await(3 * QUEUES);
        seen.tell(stage, "seen");
    }

    /** Wait until the members hold all queues between them, evenly, and tell who holds which. */
    private static void awaitQueues(
            Stage stage, String event, String topic, List<DefaultMQPushConsumer> members)
            throws Exception {
        long began = System.currentTimeMillis();
        Calls.await(
                "queues to be shared",
                () ->
                        members.stream()
                                .allMatch(it -> held(it, topic).size() == QUEUES / members.size()));
        List<Object> shares = new ArrayList<>();
        members.forEach(it -> shares.add(held(it, topic)));
        long tookMs = System.currentTimeMillis() - began;
        stage.tell(event, "shares", shares, "tookMs", tookMs);
    }

    private static List<Integer> held(DefaultMQPushConsumer consumer, String topic) {
        TreeSet<Integer> queues = new TreeSet<>();
        consumer.getDefaultMQPushConsumerImpl()
                .getRebalanceImpl()
                .getProcessQueueTable()
                .keySet()
                .stream()
                .filter(queue -> queue.getTopic().equals(topic))
                .forEach(queue -> queues.add(queue.getQueueId()));
        return List.copyOf(queues);
    }

    private static void sendToEach(Stage stage, String topic, String body) throws Exception {
        for (int queue = 0; queue < QUEUES; queue++) {
            MessageQueue to = new MessageQueue(topic, stage.brokerName(), queue);
            stage.producer().send(stage.message(topic, "a", queue + ":" + body), to);
        }
    }

    static void reset(Stage stage) throws Exception {
        String topic = stage.topic("t", 2);
        for (int i = 0; i < 10; i++) {
            stage.send(topic, "a", "early " + i);
        }
        // Offsets are found by time: no message may share the millisecond that divides them.
        Thread.sleep(50);
        long between = System.currentTimeMillis();
        Thread.sleep(50);
        for (int i = 0; i < 10; i++) {
            stage.send(topic, "a", "late " + i);
        }
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = stage.pusher("g", topic, "*");
        consumer.registerMessageListener(seen.concurrently());
        consumer.start();
        seen.await(20);
        Pushes.tellProgress(stage, consumer, topic);
        var moved =
                stage.admin().resetOffsetByTimestamp(topic, stage.name("g"), between, true);
        moved.forEach(
                (queue, offset) -> stage.tell("moved", "queue", queue.getQueueId(), "offset", offset));
        Calls.await("the later half again", () -> seen.count() >= 30);
        Pushes.tellProgress(stage, consumer, topic);
        seen.tell(stage, "seen");
        stage.refused(
                "reset of nobody",
                () -> stage.admin().resetOffsetByTimestamp(topic, stage.name("nobody"), 0, true));
    }

    /** A producer, and a consumer with nothing left to read, that stay as long as the JVM. */
    static void company(Stage stage) throws Exception {
        stage.stay();
        String topic = stage.topic("t", 2);
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = stage.pusher("g", topic, "a || b");
        consumer.registerMessageListener(seen.concurrently());
        consumer.start();
        for (int i = 0; i < 4; i++) {
            Message message = stage.message(topic, "a", "m" + i);
            message.setKeys("key" + i);
            stage.tell("sent", Stage.facts(stage.producer().send(message)));
        }
        seen.await(4);
        Pushes.tellProgress(stage, consumer, topic);
        stage.tell("consumer", "id", consumer.buildMQClientId());
    }
}
