import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sends in every way a producer has, and what the broker refuses. */
final class Sends {
    private Sends() {}

    static void everyWay(Stage stage) throws Exception {
        String topic = stage.topic("t", 4);
        DefaultMQProducer producer = stage.producer();

        stage.tell("sync", Stage.facts(producer.send(full(topic, "sync"))));
        stage.tell("async", Stage.facts(asynchronously(producer, full(topic, "async"))));
        producer.sendOneway(full(topic, "oneway"));
        stage.tell(
                "batch",
                Stage.facts(
                        producer.send(
                                List.of(
                                        full(topic, "batch 0"),
                                        full(topic, "batch 1"),
                                        full(topic, "batch 2")))));
        stage.tell(
                "selected",
                Stage.facts(
                        producer.send(
                                full(topic, "selected"),
                                (queues, message, wanted) -> queues.get((int) wanted),
                                2)));
        MessageQueue third = new MessageQueue(topic, stage.brokerName(), 3);
        stage.tell("queue", Stage.facts(producer.send(full(topic, "queue"), third)));
        stage.tell("packed", Stage.facts(producer.send(full(topic, "packed ".repeat(3_000)))));

        for (MessageExt message : stage.read(topic, 9)) {
            stage.tell("stored", Stage.facts(message));
        }
    }

    static void toNewTopic(Stage stage) throws Exception {
        String topic = stage.name("new");
        stage.tell("sent", Stage.facts(stage.send(topic, "", "first")));
        Calls.await("a route", () -> Calls.quietly(() -> stage.routed(topic)) > 0);
        var queues = stage.admin().examineTopicRouteInfo(topic).getQueueDatas().get(0);
        stage.tell(
                "route",
                "read", queues.getReadQueueNums(),
                "write", queues.getWriteQueueNums(),
                "perm", queues.getPerm());
        for (MessageExt message : stage.read(topic, 1)) {
            stage.tell("stored", Stage.facts(message));
        }
    }

    static void refused(Stage stage) throws Exception {
        String topic = stage.topic("t", 1);
        DefaultMQProducer producer = stage.producer();
        producer.setMaxMessageSize(16 * 1024 * 1024);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.setRetryTimesWhenSendFailed(0);
        MessageQueue absent = new MessageQueue(topic, stage.brokerName(), 99);
        stage.refused("absent queue", () -> producer.send(full(topic, "x"), absent));
        stage.refused("too large", () -> producer.send(new Message(topic, new byte[5 << 20])));
        stage.tell("after", Stage.facts(producer.send(full(topic, "still works"))));
    }

    private static Message full(String topic, String body) {
        Message message = new Message(topic, "paid", "k1 k2", Stage.bytes(body));
        message.putUserProperty("b", "grüße 消息 🚀");
        message.setFlag(3);
        return message;
    }

    private static SendResult asynchronously(DefaultMQProducer producer, Message message)
            throws Exception {
        CountDownLatch answered = new CountDownLatch(1);
        SendResult[] result = new SendResult[1];
        Throwable[] failure = new Throwable[1];
        producer.send(
                message,
                new SendCallback() {
                    @Override
                    public void onSuccess(SendResult sent) {
                        result[0] = sent;
                        answered.countDown();
                    }

                    @Override
                    public void onException(Throwable thrown) {
                        failure[0] = thrown;
                        answered.countDown();
                    }
                });
        answered.await();
        if (failure[0] != null) {
            throw new IllegalStateException("async send", failure[0]);
        }
        return result[0];
    }
}
