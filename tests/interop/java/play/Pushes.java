import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Push consumers: concurrent, orderly, failing, broadcasting. */
final class Pushes {
    private Pushes() {}

    static void concurrently(Stage stage) throws Exception {
        String topic = stage.topic("t", 4);
        for (int i = 0; i < 50; i++) {
            stage.send(topic, "a", "m" + i);
        }
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = stage.pusher("g", topic, "*");
        consumer.setConsumeMessageBatchMaxSize(8);
        consumer.registerMessageListener(seen.concurrently());
        consumer.start();
        seen.await(50);
        for (int i = 50; i < 60; i++) {
            stage.send(topic, "a", "m" + i);
        }
        seen.await(60);
        seen.tell(stage, "seen");
        tellProgress(stage, consumer, topic);
        consumer.shutdown();
        Seen again = new Seen();
        DefaultMQPushConsumer next = stage.pusher("g", topic, "*");
        next.registerMessageListener(again.concurrently());
        next.start();
        stage.send(topic, "a", "after a restart");
        again.await(1);
        again.tell(stage, "seen next");
    }

    /** One line for each queue, once the consumer's group has nothing left to read. */
    static void tellProgress(Stage stage, DefaultMQPushConsumer consumer, String topic)
            throws Exception {
        String group = consumer.getConsumerGroup();
        Calls.await(
                "the offsets at the broker",
                () -> {
                    consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
                    return Calls.quietly(
                                    () ->
                                            stage.admin()
                                                    .examineConsumeStats(group, topic)
                                                    .computeTotalDiff())
                            == 0;
                });
        stage.admin()
                .examineConsumeStats(group, topic)
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

    /** One message fails twice and holds back what is behind it in its queue. */
    static void orderly(Stage stage) throws Exception {
        String topic = stage.topic("t", 3);
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = stage.pusher("g", topic, "*");
        consumer.registerMessageListener(
                (MessageListenerOrderly)
                        (given, context) -> {
                            seen.add(given);
                            MessageExt message = given.get(0);
                            if (Stage.body(message).equals("1:5") && message.getReconsumeTimes() < 2) {
                                context.setSuspendCurrentQueueTimeMillis(100);
                                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                            }
                            return ConsumeOrderlyStatus.SUCCESS;
                        });
        consumer.start();
        for (int number = 0; number < 10; number++) {
            for (int queue = 0; queue < 3; queue++) {
                MessageQueue to = new MessageQueue(topic, stage.brokerName(), queue);
                stage.producer().send(stage.message(topic, "a", queue + ":" + number), to);
            }
        }
        seen.await(30);
        seen.tell(stage, "seen");
        tellProgress(stage, consumer, topic);
    }

    static void retry(Stage stage) throws Exception {
        String topic = stage.topic("t", 1);
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = stage.pusher("g", topic, "a || b");
        consumer.setMaxReconsumeTimes(2);
        consumer.registerMessageListener(
                (MessageListenerConcurrently)
                        (given, context) -> {
                            seen.add(given);
                            MessageExt message = given.get(0);
                            boolean heals = message.getTags().equals("a");
                            return heals && message.getReconsumeTimes() > 0
                                    ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                                    : ConsumeConcurrentlyStatus.RECONSUME_LATER;
                        });
        consumer.start();
        stage.tell("sent", Stage.facts(stage.send(topic, "a", "heals")));
        stage.tell("sent", Stage.facts(stage.send(topic, "b", "never heals")));
        List<MessageExt> dead = stage.read("%DLQ%" + stage.name("g"), 1);
        seen.tell(stage, "seen");
        dead.forEach(message -> stage.tell("dead", Stage.facts(message)));
        List<MessageExt> retried = stage.read("%RETRY%" + stage.name("g"), 3);
        retried.forEach(message -> stage.tell("retried", Stage.facts(message)));
        tellProgress(stage, consumer, topic);
    }

    /** In order a message is tried in place; the client itself sends it to the retry topic. */
    static void orderlyDeadLetter(Stage stage) throws Exception {
        String topic = stage.topic("t", 1);
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = stage.pusher("g", topic, "*");
        consumer.setMaxReconsumeTimes(1);
        consumer.registerMessageListener(
                (MessageListenerOrderly)
                        (given, context) -> {
                            seen.add(given);
                            context.setSuspendCurrentQueueTimeMillis(100);
                            return Stage.body(given.get(0)).equals("fine")
                                    ? ConsumeOrderlyStatus.SUCCESS
                                    : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                        });
        consumer.start();
        stage.send(topic, "a", "fails");
        stage.send(topic, "a", "fine");
        List<MessageExt> dead = stage.read("%DLQ%" + stage.name("g"), 1);
        seen.await(2);
        seen.tell(stage, "seen");
        dead.forEach(message -> stage.tell("dead", Stage.facts(message)));
    }

    static void broadcast(Stage stage) throws Exception {
        String topic = stage.topic("t", 2);
        List<Seen> all = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Seen seen = new Seen();
            DefaultMQPushConsumer consumer = stage.pusher("g", topic, "*");
            Calls.setEnum(consumer, "setMessageModel", "BROADCASTING");
            consumer.registerMessageListener(seen.concurrently());
            consumer.start();
            all.add(seen);
        }
        for (int i = 0; i < 10; i++) {
            stage.send(topic, "a", "m" + i);
        }
        for (int i = 0; i < 2; i++) {
            all.get(i).await(10);
            all.get(i).tell(stage, "seen by " + i);
        }
    }
}
