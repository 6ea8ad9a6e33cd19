import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages found by key and id, and answers to questions. */
final class Lookups {
    private Lookups() {}

    static void query(Stage stage) throws Exception {
        String topic = stage.topic("t", 2);
        List<SendResult> sent = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            Message message = stage.message(topic, "a", "m" + i);
            message.setKeys(List.of("all", "key" + i));
            sent.add(stage.producer().send(message));
        }
        SendResult third = sent.get(3);
        stage.tell("sent", Stage.facts(third));
        long stop = System.currentTimeMillis() + 60_000;
        tell(stage, "by key", stage.producer().queryMessage(topic, "key3", 32, 0, stop));
        tell(stage, "by common key", stage.producer().queryMessage(topic, "all", 32, 0, stop));
        tell(stage, "at most two", stage.producer().queryMessage(topic, "all", 2, 0, stop));
        stage.tell(
                "by unique id",
                Stage.facts(stage.producer().viewMessage(topic, third.getMsgId())));
        // Releases name the call by the offset id differently.
        MessageExt found =
                (MessageExt) Calls.call(stage.admin(), "viewMessage", topic, third.getOffsetMsgId());
        stage.tell("by offset id", Stage.facts(found));
        stage.refused(
                "by absent key", () -> stage.producer().queryMessage(topic, "none", 32, 0, stop));
        stage.refused(
                "too early", () -> stage.producer().queryMessage(topic, "key3", 32, 0, 1_000));
    }

    private static void tell(Stage stage, String event, QueryResult result) {
        for (MessageExt message : result.getMessageList()) {
            stage.tell(event, Stage.facts(message));
        }
    }

    static void request(Stage stage) throws Exception {
        String topic = stage.topic("t", 2);
        answering(stage, topic, new AtomicInteger());
        for (int i = 0; i < 3; i++) {
            ask(stage, topic, "question " + i);
        }
    }

    /** Ask a question that somebody else answers. */
    static void ask(Stage stage) throws Exception {
        ask(stage, stage.name("t"), "question");
    }

    /** Answer the question of somebody else. */
    static void answerOne(Stage stage) throws Exception {
        AtomicInteger answered = new AtomicInteger();
        answering(stage, stage.name("t"), answered);
        Calls.await("a question", () -> answered.get() > 0);
    }

    private static void ask(Stage stage, String topic, String question) throws Exception {
        Message answer = stage.producer().request(stage.message(topic, "a", question), 20_000);
        stage.tell("answer", "body", Stage.body(answer), "properties", answer.getProperties());
    }

    private static void answering(Stage stage, String topic, AtomicInteger answered)
            throws Exception {
        DefaultMQPushConsumer consumer = stage.pusher("g", topic, "*");
        consumer.registerMessageListener(
                (MessageListenerConcurrently)
                        (given, context) -> {
                            for (MessageExt question : given) {
                                answer(stage, question);
                                answered.incrementAndGet();
                            }
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        consumer.start();
    }

    private static void answer(Stage stage, MessageExt question) {
        if (!question.getProperties().containsKey("CORRELATION_ID")) {
            return;
        }
        try {
            byte[] body = Stage.bytes("answer to " + Stage.body(question));
            var sent = stage.producer().send(MessageUtil.createReplyMessage(question, body));
            stage.tell("answered", "status", sent.getSendStatus().name());
        } catch (Exception failure) {
            stage.tell("not answered", "why", failure.toString());
        }
    }
}
