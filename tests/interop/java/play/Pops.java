import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;

/** Push consumers that leave sharing to the broker and pop; of 5.x alone. */
final class Pops {
    private static final int MESSAGES = 40;

    private Pops() {}

    /** One message fails once; its topic and the mode of its group are there already. */
    static void pop(Stage stage) throws Exception {
        String topic = stage.name("t");
        for (int i = 0; i < MESSAGES; i++) {
            stage.send(topic, i % 4 == 0 ? "b" : "a", "m" + i);
        }
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = stage.pusher("g", topic, "a");
        // the client of 4.9, with which this is compiled too, has no such method
        consumer.getClass().getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        consumer.registerMessageListener(
                (MessageListenerConcurrently)
                        (given, context) -> {
                            seen.add(given);
                            MessageExt message = given.get(0);
                            return Stage.body(message).equals("m3") && message.getReconsumeTimes() == 0
                                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        consumer.start();
        Calls.await("all and one again", () -> seen.count() >= MESSAGES * 3 / 4 + 1);
        seen.tell(stage, "seen");
        stage.send(topic, "a", "late");
        seen.await(MESSAGES * 3 / 4 + 1);
    }
}
