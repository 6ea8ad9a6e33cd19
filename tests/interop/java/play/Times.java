import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.Message;

/** Messages that are delivered later. */
final class Times {
    private Times() {}

    static void delay(Stage stage) throws Exception {
        String topic = stage.topic("t", 1);
        Seen seen = listening(stage, topic);
        for (int level : new int[] {2, 1, 0, 99}) {
            Message message = stage.message(topic, "a", "level " + level);
            message.setDelayTimeLevel(level);
            stage.tell("sent", Stage.facts(stage.producer().send(message)));
        }
        seen.await(4);
        seen.tell(stage, "seen");
    }

    /** Three setters of 5.x; a client of 4.9 does not have them. */
    static void timer(Stage stage) throws Exception {
        String topic = stage.topic("t", 1);
        Seen seen = listening(stage, topic);
        long now = System.currentTimeMillis();
        stage.tell("now", "ms", now);
        send(stage, topic, "setDelayTimeMs", 3_000L);
        send(stage, topic, "setDelayTimeSec", 1L);
        send(stage, topic, "setDeliverTimeMs", now + 2_000);
        seen.await(3);
        seen.tell(stage, "seen");
        Message late = stage.message(topic, "a", "too late");
        Calls.call(late, "setDelayTimeSec", 4L * 24 * 3600);
        stage.refused("too late", () -> stage.producer().send(late));
    }

    private static void send(Stage stage, String topic, String setter, long value)
            throws Exception {
        Message message = stage.message(topic, "a", setter);
        Calls.call(message, setter, value);
        stage.tell("sent", Stage.facts(stage.producer().send(message)));
    }

    private static Seen listening(Stage stage, String topic) throws Exception {
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = stage.pusher("g", topic, "*");
        consumer.registerMessageListener(seen.concurrently());
        consumer.start();
        return seen;
    }
}
