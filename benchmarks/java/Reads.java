import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Groups that read a backlog, each a new one.
 *
 * <p>Clock and CPU count from the first message to the last: not the start of a consumer.
 */
final class Reads {
    private Reads() {}

    /** Counts messages from several threads, and what they cost. */
    private static final class Meter {
        private final long wanted;
        private final AtomicLong count = new AtomicLong();
        private final CountDownLatch done = new CountDownLatch(1);
        private volatile Load.Spent spent;

        Meter(long wanted) {
            this.wanted = wanted;
        }

        void add(int some) {
            long before = count.getAndAdd(some);
            if (before == 0) {
                spent = new Load.Spent();
            }
            if (before < wanted && before + some >= wanted) {
                spent.end();
                done.countDown();
            }
        }

        String result() {
            return Load.result(count.get(), 0, spent, new long[0]);
        }
    }

    static String push(String namesrv, String topic, int wanted, int batch, String id)
            throws Exception {
        return listen(new DefaultMQPushConsumer("load_pushed_" + id), namesrv, topic, wanted, batch, id);
    }

    /** A group that the broker lets pop: it asks the broker for its mode. */
    static String pop(String namesrv, String topic, int wanted, String group, String id)
            throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setClientRebalance(false);
        return listen(consumer, namesrv, topic, wanted, 1, id);
    }

    private static String listen(
            DefaultMQPushConsumer consumer, String namesrv, String topic, int wanted, int batch, String id)
            throws Exception {
        Meter meter = new Meter(wanted);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(id);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(batch);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(
                (MessageListenerConcurrently)
                        (messages, context) -> {
                            meter.add(messages.size());
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        consumer.start();
        meter.done.await();
        consumer.shutdown();
        return meter.result();
    }

    static String lite(String namesrv, String topic, int wanted, String id) throws Exception {
        Meter meter = new Meter(wanted);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("load_lite_" + id);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(id);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(32);
        consumer.subscribe(topic, "*");
        consumer.start();
        while (meter.done.getCount() > 0) {
            List<MessageExt> some = consumer.poll();
            if (!some.isEmpty()) {
                meter.add(some.size());
            }
        }
        consumer.shutdown();
        return meter.result();
    }
}
