import java.util.List;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/**
 * A member of a group that clients of other makes belong to as well.
 *
 * <p>There is one at a time. It stays when the scenario that made it ends, and leaves when told.
 * The topic is made by the others.
 */
final class Beside {
    private static Beside current;

    private final DefaultMQPushConsumer consumer;
    private final String topic;
    private final Seen seen = new Seen();

    private Beside(Stage stage) throws Exception {
        stage.stay();
        topic = stage.name("t");
        consumer = stage.pusher("g", topic, "*");
    }

    static void join(Stage stage) throws Exception {
        current = new Beside(stage);
        current.consumer.registerMessageListener(current.seen.concurrently());
        current.start(stage);
    }

    static void joinOrderly(Stage stage) throws Exception {
        current = new Beside(stage);
        current.consumer.registerMessageListener(current.seen.orderly());
        current.start(stage);
    }

    private void start(Stage stage) throws Exception {
        consumer.start();
        stage.tell("joined", "id", consumer.buildMQClientId());
    }

    /** Which queues it has now, and what it was given. */
    static void soFar(Stage stage) {
        Beside member = current;
        TreeSet<Integer> queues = new TreeSet<>();
        member.consumer
                .getDefaultMQPushConsumerImpl()
                .getRebalanceImpl()
                .getProcessQueueTable()
                .keySet()
                .stream()
                .filter(queue -> queue.getTopic().equals(member.topic))
                .forEach(queue -> queues.add(queue.getQueueId()));
        stage.tell("holds", "queues", List.copyOf(queues));
        member.seen.tell(stage, "seen");
    }

    static void leave(Stage stage) {
        current.consumer.shutdown();
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
