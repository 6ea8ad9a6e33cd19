import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A producer that never stops and two consumers of one group, while servers come and go.
 *
 * <p>There is one at a time; the scenarios after {@link #begin} are about that one. Every body is
 * a key that no other message has.
 */
final class Traffic {
    private static final int QUEUES = 2; // on each broker
    private static final int MEMBERS = 2;
    private static final long PAUSE_MS = 5;
    private static final int NOTICE_MS = 1_000; // 30 s unless told otherwise

    private static Traffic current;

    private final Map<String, SendResult> acknowledged = new TreeMap<>();
    private final Map<String, Integer> byBroker = new TreeMap<>();
    private final List<String> failures = new ArrayList<>();
    private final List<Seen> members = new ArrayList<>();
    private final Thread sender = new Thread(this::send, "sender");
    private final String topic;
    private final DefaultMQProducer producer;
    private volatile boolean ending;

    private Traffic(String topic, DefaultMQProducer producer) {
        this.topic = topic;
        this.producer = producer;
        sender.setDaemon(true);
    }

    static void begin(Stage stage) throws Exception {
        stage.stay();
        DefaultMQProducer producer = new DefaultMQProducer(stage.name("p"));
        producer.setPollNameServerInterval(NOTICE_MS);
        current = new Traffic(everywhere(stage), stage.ready(producer));
        for (int i = 0; i < MEMBERS; i++) {
            Seen seen = new Seen();
            DefaultMQPushConsumer consumer = stage.pusher("g", current.topic, "*");
            // A broker that was away knows no group until the next sign of life.
            consumer.setHeartbeatBrokerInterval(NOTICE_MS);
            consumer.registerMessageListener(seen.concurrently());
            consumer.start();
            current.members.add(seen);
        }
        current.sender.start();
        stage.tell("topic", "name", current.topic);
    }

    /** How many messages each broker acknowledged, and how many of all were not consumed yet. */
    static void soFar(Stage stage) {
        Traffic traffic = current;
        int unseen = traffic.unseen().size();
        synchronized (traffic) {
            stage.tell(
                    "so far",
                    "acknowledged", new TreeMap<>(traffic.byBroker),
                    "unseen", unseen,
                    "failures", new ArrayList<>(traffic.failures));
        }
    }

    /** No more sends. What was consumed is told when it is everything, or does not become so. */
    static void end(Stage stage) throws Exception {
        Traffic traffic = current;
        traffic.ending = true;
        traffic.sender.join();
        Calls.quietly(
                () -> {
                    Calls.await("all to be consumed", () -> traffic.unseen().isEmpty());
                    return 0L;
                });
        traffic.acknowledged.forEach((key, sent) -> tell(stage, key, sent));
        for (Seen seen : traffic.members) {
            stage.tell("seen", "bodies", new ArrayList<>(seen.bodies()));
        }
        tellStored(stage, traffic.topic, traffic.acknowledged.size());
        soFar(stage);
    }

    /** A topic that nobody made is made by each broker that is given a message of it. */
    static void toNewTopicOnBoth(Stage stage) throws Exception {
        String topic = stage.name("new");
        for (int i = 0; i < 16; i++) {
            tell(stage, "m" + i, stage.send(topic, "", "m" + i));
        }
        Calls.await("both routes", () -> Calls.quietly(() -> stage.routed(topic)) == 2);
        tellStored(stage, topic, 16);
    }

    /**
     * A client that starts now: makes a topic, sends and consumes.
     *
     * <p>A call of 5.x fails when the name server it chose is away; the next one chooses another.
     */
    static void newcomer(Stage stage) throws Exception {
        await("a name server", () -> stage.routed("TBW102"));
        String topic = everywhere(stage);
        for (int i = 0; i < 20; i++) {
            String body = "m" + i;
            await("an answer", () -> 1L + stage.send(topic, "a", body).getQueueOffset());
        }
        Seen seen = new Seen();
        await(
                "a consumer",
                () -> {
                    DefaultMQPushConsumer consumer = stage.pusher("g", topic, "*");
                    consumer.registerMessageListener(seen.concurrently());
                    consumer.start();
                    return 1L;
                });
        seen.await(20);
        stage.tell("topic", "name", topic);
        stage.tell("seen", "bodies", new ArrayList<>(seen.bodies()));
    }

    private static void await(String what, Callable<Long> some) throws Exception {
        Calls.await(what, () -> Calls.quietly(some) > 0);
    }

    /** A new topic on every broker there is. */
    private static String everywhere(Stage stage) throws Exception {
        TopicConfig config = new TopicConfig(stage.name("t"), QUEUES, QUEUES, 6);
        var brokers = stage.admin().examineBrokerClusterInfo().getBrokerAddrTable().values();
        for (var broker : brokers) {
            stage.admin().createAndUpdateTopicConfig(broker.selectBrokerAddr(), config);
        }
        String topic = config.getTopicName();
        Calls.await("routes", () -> Calls.quietly(() -> stage.routed(topic)) == brokers.size());
        return topic;
    }

    private void send() {
        for (int number = 0; !ending; number++) {
            String key = "k" + number;
            try {
                Thread.sleep(PAUSE_MS);
                note(key, producer.send(new Message(topic, "a", key, Stage.bytes(key))));
            } catch (Exception failure) {
                synchronized (this) {
                    failures.add(key + ": " + failure);
                }
            }
        }
    }

    private synchronized void note(String key, SendResult sent) {
        acknowledged.put(key, sent);
        byBroker.merge(sent.getMessageQueue().getBrokerName(), 1, Integer::sum);
    }

    private static void tell(Stage stage, String key, SendResult sent) {
        MessageQueue queue = sent.getMessageQueue();
        stage.tell(
                "acknowledged",
                "body", key,
                "status", sent.getSendStatus().name(),
                "broker", queue.getBrokerName(),
                "queue", queue.getQueueId(),
                "offset", sent.getQueueOffset());
    }

    private static void tellStored(Stage stage, String topic, int count) throws Exception {
        for (MessageExt message : stage.read(topic, count)) {
            stage.tell(
                    "stored",
                    "body", Stage.body(message),
                    "broker", message.getBrokerName(),
                    "queue", message.getQueueId(),
                    "offset", message.getQueueOffset());
        }
    }

    private synchronized Set<String> unseen() {
        Set<String> keys = new TreeSet<>(acknowledged.keySet());
        members.forEach(seen -> keys.removeAll(seen.bodies()));
        return keys;
    }
}
