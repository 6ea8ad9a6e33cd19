import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that ask by themselves: the old pull consumer and the lite one. */
final class Pulls {
    private Pulls() {}

    static void pull(Stage stage) throws Exception {
        String topic = stage.topic("t", 1);
        MessageQueue queue = new MessageQueue(topic, stage.brokerName(), 0);
        DefaultMQPullConsumer puller = stage.puller();
        tell(stage, "empty", puller.pull(queue, "*", 0, 32));
        for (int i = 0; i < 40; i++) {
            stage.send(topic, i % 2 == 0 ? "even" : "odd", "m" + i);
        }
        tell(stage, "found", puller.pull(queue, "*", 0, 10));
        tell(stage, "default limit", puller.pull(queue, "*", 0, 100));
        tell(stage, "tagged", puller.pull(queue, "odd", 0, 3));
        tell(stage, "none matched", puller.pull(queue, "neither", 0, 32));
        tell(stage, "at end", puller.pull(queue, "*", 40, 32));
        tell(stage, "beyond end", puller.pull(queue, "*", 1_000, 32));
        stage.tell(
                "range",
                "min", puller.minOffset(queue),
                "max", puller.maxOffset(queue),
                "atOnce", puller.searchOffset(queue, 0),
                "future", puller.searchOffset(queue, System.currentTimeMillis() + 60_000),
                "earliest", puller.earliestMsgStoreTime(queue));
        long unknown = puller.fetchConsumeOffset(queue, true);
        puller.getOffsetStore().updateConsumeOffsetToBroker(queue, 7, false);
        long kept = puller.fetchConsumeOffset(queue, true);
        stage.tell("offset", "unknown", unknown, "kept", kept);
        MessageQueue absent = new MessageQueue(topic, stage.brokerName(), 9);
        stage.refused("absent queue", () -> puller.pull(absent, "*", 0, 1));
        MessageQueue nowhere = new MessageQueue(stage.name("none"), stage.brokerName(), 0);
        stage.refused("absent topic", () -> puller.pull(nowhere, "*", 0, 1));
    }

    /** A pull at the end of a queue waits, and is answered when a message comes. */
    static void longPoll(Stage stage) throws Exception {
        String topic = stage.topic("t", 1);
        MessageQueue queue = new MessageQueue(topic, stage.brokerName(), 0);
        DefaultMQPullConsumer puller = stage.puller();
        stage.send(topic, "a", "first");
        puller.setBrokerSuspendMaxTimeMillis(2_000);
        long began = System.nanoTime();
        tell(stage, "nothing came", puller.pullBlockIfNotFound(queue, "*", 1, 32));
        stage.tell("waited", "ms", (System.nanoTime() - began) / 1_000_000);
        puller.setBrokerSuspendMaxTimeMillis(15_000);
        for (String tags : List.of("*", "b")) {
            long at = puller.maxOffset(queue);
            PullResult[] got = new PullResult[1];
            Thread waiting =
                    new Thread(
                            () -> {
                                try {
                                    got[0] = puller.pullBlockIfNotFound(queue, tags, at, 32);
                                } catch (Exception failure) {
                                    failure.printStackTrace();
                                }
                            });
            waiting.start();
            waiting.join(1_000); // time for the pull to be held
            stage.tell("held", "held", waiting.isAlive());
            began = System.nanoTime();
            stage.send(topic, "a", "not b");
            stage.send(topic, "b", "b");
            waiting.join();
            stage.tell("woken", "ms", (System.nanoTime() - began) / 1_000_000);
            tell(stage, "came", got[0]);
        }
    }

    static void liteSubscribe(Stage stage) throws Exception {
        String topic = stage.topic("t", 1);
        for (int i = 0; i < 20; i++) {
            stage.send(topic, i % 2 == 0 ? "even" : "odd", "m" + i);
        }
        DefaultLitePullConsumer consumer = lite(stage, "g");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "odd");
        consumer.start();
        poll(stage, consumer, 10, "seen");
        Calls.call(consumer, "commitSync");
        awaitCommit(stage, consumer, new MessageQueue(topic, stage.brokerName(), 0), 20);
        consumer.shutdown();
        stage.send(topic, "odd", "after a restart");
        DefaultLitePullConsumer next = lite(stage, "g");
        next.subscribe(topic, "odd");
        next.start();
        poll(stage, next, 1, "seen next");
    }

    static void liteAssign(Stage stage) throws Exception {
        String topic = stage.topic("t", 2);
        MessageQueue queue = new MessageQueue(topic, stage.brokerName(), 1);
        for (int i = 0; i < 10; i++) {
            stage.producer().send(stage.message(topic, "a", "m" + i), queue);
        }
        DefaultLitePullConsumer consumer = lite(stage, "g");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.start();
        stage.tell("queues", "count", consumer.fetchMessageQueues(topic).size());
        consumer.assign(List.of(queue));
        poll(stage, consumer, 10, "seen");
        // Only now: what a pull under way brings would still be given out after a seek.
        consumer.seek(queue, 4);
        poll(stage, consumer, 6, "seen after seek");
        Calls.call(consumer, "commitSync");
        awaitCommit(stage, consumer, queue, 10);
    }

    private static void awaitCommit(
            Stage stage, DefaultLitePullConsumer consumer, MessageQueue queue, long offset)
            throws Exception {
        Calls.await("commit", () -> Calls.quietly(() -> consumer.committed(queue)) == offset);
        stage.tell("committed", "offset", consumer.committed(queue));
    }

    private static DefaultLitePullConsumer lite(Stage stage, String group) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(stage.name(group));
        consumer.setNamesrvAddr(stage.namesrv);
        consumer.setInstanceName(stage.instance());
        consumer.setAutoCommit(false);
        stage.atEnd(consumer::shutdown);
        return consumer;
    }

    private static void poll(
            Stage stage, DefaultLitePullConsumer consumer, int count, String event)
            throws Exception {
        List<MessageExt> got = new ArrayList<>();
        Calls.await(
                count + " polled",
                () -> {
                    got.addAll(consumer.poll(500));
                    return got.size() >= count;
                });
        got.forEach(message -> stage.tell(event, Stage.facts(message)));
    }

    private static void tell(Stage stage, String event, PullResult result) {
        List<String> bodies = new ArrayList<>();
        if (result.getMsgFoundList() != null) {
            result.getMsgFoundList().forEach(message -> bodies.add(Stage.body(message)));
        }
        stage.tell(
                event,
                "status", result.getPullStatus().name(),
                "next", result.getNextBeginOffset(),
                "min", result.getMinOffset(),
                "max", result.getMaxOffset(),
                "bodies", bodies);
    }
}
