import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Half messages: settled at once, or unknown and asked for later. */
final class Transactions {
    private Transactions() {}

    /** A body is the state told at once, then the states told to each check, parted by "+". */
    static void outcomes(Stage stage) throws Exception {
        String topic = stage.topic("t", 1);
        Map<String, Integer> checks = new ConcurrentHashMap<>();
        TransactionMQProducer producer = new TransactionMQProducer(stage.name("x"));
        producer.setTransactionListener(
                new TransactionListener() {
                    @Override
                    public LocalTransactionState executeLocalTransaction(Message half, Object none) {
                        return state(Stage.body(half), 0);
                    }

                    @Override
                    public LocalTransactionState checkLocalTransaction(MessageExt half) {
                        String body = Stage.body(half);
                        int times = checks.merge(body, 1, Integer::sum);
                        stage.tell(
                                "check",
                                "body", body,
                                "topic", half.getTopic(),
                                "id", half.getTransactionId(),
                                "times", half.getProperty("TRANSACTION_CHECK_TIMES"));
                        return state(body, times);
                    }
                });
        stage.ready(producer);
        String[] plots = {"C", "R", "U+C", "U+R", "U+U+C"};
        for (String plot : plots) {
            Message message = stage.message(topic, "a", plot);
            message.setKeys("key");
            var sent = producer.sendMessageInTransaction(message, null);
            stage.tell(
                    "sent",
                    "body", plot,
                    "status", sent.getSendStatus().name(),
                    "state", sent.getLocalTransactionState().name(),
                    "id", sent.getTransactionId(),
                    "msgId", sent.getMsgId());
        }
        var committed = stage.read(topic, 3);
        Calls.await("the check that rolls back", () -> checks.containsKey("U+R"));
        committed.forEach(message -> stage.tell("stored", Stage.facts(message)));
        // A message after the last outcome: whatever is wrongly delivered comes before it.
        stage.send(topic, "a", "last");
        stage.read(topic, 4).forEach(message -> stage.tell("in the end", Stage.facts(message)));
    }

    private static LocalTransactionState state(String plot, int step) {
        String[] steps = plot.split("\\+");
        switch (steps[Math.min(step, steps.length - 1)]) {
            case "C":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "R":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            default:
                return LocalTransactionState.UNKNOW;
        }
    }
}
