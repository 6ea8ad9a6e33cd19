import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What an MQTT front end does: messages that are in light queues, and readers of those. */
final class Light {
    private static final String NAMES = "INNER_MULTI_DISPATCH";
    private static final String OFFSETS = "INNER_MULTI_QUEUE_OFFSET";

    private Light() {}

    static void queues(Stage stage) throws Exception {
        String topic = stage.topic("chat", 1);
        DefaultMQPullConsumer puller = stage.puller();
        // No route leads to a light queue: the client learns of the broker by its topic.
        puller.maxOffset(new MessageQueue(topic, stage.brokerName(), 0));
        send(stage, topic, "0", "a");
        send(stage, topic, "1", "a", "b");
        send(stage, topic, "2", "b", "a");
        send(stage, topic, "3", "c");
        tell(stage, "a", 3);
        tell(stage, "b", 2);
        tell(stage, "c", 1);
        held(stage, topic);
        MessageQueue queue = queue(stage, "a");
        puller.getOffsetStore().updateConsumeOffsetToBroker(queue, 2, false);
        stage.tell("offset", "kept", puller.fetchConsumeOffset(queue, true));
    }

    /** A pull at the end of a light queue is answered when a message comes into it. */
    private static void held(Stage stage, String topic) throws Exception {
        DefaultMQPullConsumer puller = stage.puller();
        puller.setBrokerSuspendMaxTimeMillis(15_000);
        MessageQueue queue = queue(stage, "b");
        PullResult[] got = new PullResult[1];
        Thread waiting =
                new Thread(
                        () -> {
                            try {
                                got[0] = puller.pullBlockIfNotFound(queue, "*", 2, 32);
                            } catch (Exception failure) {
                                failure.printStackTrace();
                            }
                        });
        waiting.start();
        waiting.join(1_000); // time for the pull to be held
        stage.tell("held", "held", waiting.isAlive());
        send(stage, topic, "4", "c", "b");
        waiting.join();
        stage.tell("came", "bodies", bodies(got[0].getMsgFoundList()));
    }

    private static void send(Stage stage, String topic, String body, String... names)
            throws Exception {
        List<String> light = new ArrayList<>();
        for (String name : names) {
            light.add(queue(stage, name).getTopic());
        }
        Message message = stage.message(topic, "a", body);
        MessageAccessor.putProperty(message, NAMES, String.join(",", light));
        stage.tell("sent", Stage.facts(stage.producer().send(message)));
    }

    private static void tell(Stage stage, String name, long count) throws Exception {
        MessageQueue queue = queue(stage, name);
        DefaultMQPullConsumer puller = stage.puller();
        // Real brokers put a record into its queues a moment after it was stored.
        Calls.await("light queue " + name, () -> Calls.quietly(() -> puller.maxOffset(queue)) == count);
        PullResult found = puller.pull(queue, "a", 0, 32);
        List<String> offsets = new ArrayList<>();
        for (MessageExt message : found.getMsgFoundList()) {
            offsets.add(message.getProperty(OFFSETS));
        }
        stage.tell(
                name,
                "min", puller.minOffset(queue),
                "next", found.getNextBeginOffset(),
                "bodies", bodies(found.getMsgFoundList()),
                "offsets", offsets);
    }

    private static List<String> bodies(List<MessageExt> messages) {
        List<String> found = new ArrayList<>();
        messages.forEach(message -> found.add(Stage.body(message)));
        return found;
    }

    private static MessageQueue queue(Stage stage, String name) throws Exception {
        return new MessageQueue("%LMQ%" + stage.name(name), stage.brokerName(), 0);
    }
}
