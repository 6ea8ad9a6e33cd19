import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A topic of one queue that keeps batches, which is there already. */
final class Batches {
    private static final int BATCHES = 4;
    private static final int MESSAGES = 5;

    private Batches() {}

    /** Adds batches and single messages behind those that are there, and reads all of them. */
    static void send(Stage stage) throws Exception {
        String topic = stage.name("t");
        MessageQueue queue = new MessageQueue(topic, stage.brokerName(), 0);
        DefaultMQProducer producer = stage.producer();
        DefaultMQPullConsumer puller = stage.puller();
        long start = puller.maxOffset(queue);
        for (int i = 0; i < BATCHES; i++) {
            List<Message> batch = new ArrayList<>();
            for (int j = 0; j < MESSAGES; j++) {
                byte[] body = ((start + i) + "/" + j).getBytes();
                batch.add(new Message(topic, "tag" + j, "key" + j, body));
            }
            stage.tell("batch", Stage.facts(producer.send(batch, queue)));
            byte[] body = Long.toString(start + i).getBytes();
            stage.tell("single", Stage.facts(producer.send(new Message(topic, body), queue)));
        }
        long stop = start + BATCHES * (MESSAGES + 1);
        Calls.await("all messages", () -> Calls.quietly(() -> puller.maxOffset(queue)) >= stop);
        stage.tell("range", "min", puller.minOffset(queue), "max", puller.maxOffset(queue));
        PullResult inside = puller.pull(queue, "*", start + 8, 6);
        stage.tell(
                "inside",
                "first", inside.getMsgFoundList().get(0).getQueueOffset(),
                "count", inside.getMsgFoundList().size(),
                "next", inside.getNextBeginOffset());
        read(stage);
    }

    /** Reads what is there. */
    static void read(Stage stage) throws Exception {
        MessageQueue queue = new MessageQueue(stage.name("t"), stage.brokerName(), 0);
        DefaultMQPullConsumer puller = stage.puller();
        PullResult pulled = puller.pull(queue, "*", puller.minOffset(queue), 32);
        while (pulled.getPullStatus() == PullStatus.FOUND) {
            for (MessageExt message : pulled.getMsgFoundList()) {
                stage.tell("stored", Stage.facts(message));
            }
            pulled = puller.pull(queue, "*", pulled.getNextBeginOffset(), 32);
        }
    }
}
