import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Load from the Java client, one command per line of input, one JSON object per line of output.
 *
 *   send    NAMESRV TOPIC SIZE THREADS SECONDS
 *   batch   NAMESRV TOPIC SIZE THREADS SECONDS COUNT
 *   async   NAMESRV TOPIC SIZE SECONDS UNDER_WAY
 *   pull    NAMESRV TOPIC COUNT
 *   lite    NAMESRV TOPIC COUNT
 *   push    NAMESRV TOPIC COUNT BATCH
 *   pop     NAMESRV TOPIC COUNT GROUP
 *   latency NAMESRV TOPIC RATE SECONDS
 *
 * It stays up between commands, so that both sides of a comparison meet the same warm JVM.
 */
public class Load {
    private static final Map<String, DefaultMQProducer> PRODUCERS = new HashMap<>();
    private static int made = 0;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split(" ");
            try {
                System.out.println("RESULT " + run(words));
            } catch (Throwable e) {
                System.out.println("RESULT {\"error\":\"" + e.toString().replace("\"", "'") + "\"}");
            }
            System.out.flush();
        }
        System.exit(0);
    }

    private static String run(String[] w) throws Exception {
        switch (w[0]) {
            case "send": return send(w[1], w[2], num(w[3]), num(w[4]), num(w[5]), 1);
            case "batch": return send(w[1], w[2], num(w[3]), num(w[4]), num(w[5]), num(w[6]));
            case "async": return sendAsync(w[1], w[2], num(w[3]), num(w[4]), num(w[5]));
            case "pull": return pull(w[1], w[2], num(w[3]));
            case "lite": return Reads.lite(w[1], w[2], num(w[3]), id());
            case "push": return Reads.push(w[1], w[2], num(w[3]), num(w[4]), id());
            case "pop": return Reads.pop(w[1], w[2], num(w[3]), w[4], id());
            case "latency": return latency(w[1], w[2], num(w[3]), num(w[4]));
            default: throw new IllegalArgumentException(w[0]);
        }
    }

    private static int num(String text) {
        return Integer.parseInt(text);
    }

    /** A name nobody else has. */
    private static String id() {
        return "load" + made++ + "_" + System.currentTimeMillis();
    }

    /** Clock and CPU of this process, from its making to its end. */
    static final class Spent {
        private static final OperatingSystemMXBean SYSTEM =
                (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

        private final long startNs = System.nanoTime();
        private final long startCpuNs = SYSTEM.getProcessCpuTime();
        private volatile double seconds;
        private volatile double cpuSeconds;

        void end() {
            seconds = (System.nanoTime() - startNs) / 1e9;
            cpuSeconds = (SYSTEM.getProcessCpuTime() - startCpuNs) / 1e9;
        }
    }

    private static synchronized DefaultMQProducer producer(String namesrv) throws Exception {
        DefaultMQProducer found = PRODUCERS.get(namesrv);
        if (found == null) {
            found = new DefaultMQProducer("load_producers");
            found.setNamesrvAddr(namesrv);
            found.setInstanceName("load" + made++);
            found.setRetryTimesWhenSendFailed(0);
            found.setSendMsgTimeout(10_000);
            found.start();
            PRODUCERS.put(namesrv, found);
        }
        return found;
    }

    private static String send(
            String namesrv, String topic, int size, int threads, int seconds, int batch)
            throws Exception {
        DefaultMQProducer producer = producer(namesrv);
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) 'x');
        producer.send(new Message(topic, "TagA", "k", body));
        AtomicLong count = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        ConcurrentLinkedQueue<long[]> taken = new ConcurrentLinkedQueue<>();
        CountDownLatch done = new CountDownLatch(threads);
        Spent spent = new Spent();
        long stop = System.nanoTime() + seconds * 1_000_000_000L;
        for (int t = 0; t < threads; t++) {
            new Thread(() -> {
                List<Long> mine = new ArrayList<>();
                long sent = 0;
                for (long now = System.nanoTime(); now < stop; ) {
                    try {
                        SendStatus status;
                        if (batch == 1) {
                            status = producer.send(new Message(topic, "TagA", body)).getSendStatus();
                        } else {
                            List<Message> many = new ArrayList<>(batch);
                            for (int i = 0; i < batch; i++) {
                                many.add(new Message(topic, "TagA", body));
                            }
                            status = producer.send(many).getSendStatus();
                        }
                        if (status == SendStatus.SEND_OK) {
                            sent += batch;
                        } else {
                            failed.incrementAndGet();
                        }
                    } catch (Exception e) {
                        failed.incrementAndGet();
                    }
                    long after = System.nanoTime();
                    mine.add(after - now);
                    now = after;
                }
                count.addAndGet(sent);
                taken.add(mine.stream().mapToLong(Long::longValue).toArray());
                done.countDown();
            }).start();
        }
        done.await();
        spent.end();
        return result(count.get(), failed.get(), spent, merged(taken));
    }

    /** From one thread, with so many answers to come at most. */
    private static String sendAsync(
            String namesrv, String topic, int size, int seconds, int underWay) throws Exception {
        DefaultMQProducer producer = producer(namesrv);
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) 'x');
        producer.send(new Message(topic, "TagA", "k", body));
        AtomicLong count = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        Semaphore room = new Semaphore(underWay);
        SendCallback callback =
                new SendCallback() {
                    @Override
                    public void onSuccess(SendResult sent) {
                        count.incrementAndGet();
                        room.release();
                    }

                    @Override
                    public void onException(Throwable failure) {
                        failed.incrementAndGet();
                        room.release();
                    }
                };
        Spent spent = new Spent();
        long stop = System.nanoTime() + seconds * 1_000_000_000L;
        while (System.nanoTime() < stop) {
            room.acquire();
            producer.send(new Message(topic, "TagA", body), callback);
        }
        room.acquire(underWay);
        spent.end();
        return result(count.get(), failed.get(), spent, new long[0]);
    }

    private static String pull(String namesrv, String topic, int wanted) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("load_pullers" + made);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("load" + made++);
        consumer.start();
        List<MessageQueue> queues = new ArrayList<>(consumer.fetchSubscribeMessageQueues(topic));
        Collections.sort(queues);
        long count = 0;
        long bytes = 0;
        Spent spent = new Spent();
        for (MessageQueue queue : queues) {
            long offset = consumer.minOffset(queue);
            while (count < wanted) {
                PullResult result = consumer.pull(queue, "*", offset, 32);
                if (result.getPullStatus() != PullStatus.FOUND) {
                    break;
                }
                for (MessageExt message : result.getMsgFoundList()) {
                    count++;
                    bytes += message.getBody().length;
                }
                offset = result.getNextBeginOffset();
            }
        }
        spent.end();
        consumer.shutdown();
        if (bytes == 0) {
            throw new IllegalStateException("nothing to pull");
        }
        return result(count, 0, spent, new long[0]);
    }

    private static String latency(String namesrv, String topic, int rate, int seconds)
            throws Exception {
        ConcurrentLinkedQueue<long[]> taken = new ConcurrentLinkedQueue<>();
        AtomicLong received = new AtomicLong();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("load_pushed" + made);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("load" + made++);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.nanoTime();
            for (MessageExt message : messages) {
                String text = message.getUserProperty("at");
                if (text != null) {
                    taken.add(new long[] {now - Long.parseLong(text)});
                    received.incrementAndGet();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Thread.sleep(4_000);
        received.set(0);
        taken.clear();
        DefaultMQProducer producer = producer(namesrv);
        byte[] body = new byte[128];
        Spent spent = new Spent();
        long start = System.nanoTime();
        long sent = 0;
        long failed = 0;
        long step = 1_000_000_000L / rate;
        for (long due = start; due < start + seconds * 1_000_000_000L; due += step) {
            while (System.nanoTime() < due) {
                Thread.sleep(0, 200_000);
            }
            Message message = new Message(topic, "TagA", body);
            message.putUserProperty("at", Long.toString(System.nanoTime()));
            try {
                producer.sendOneway(message);
                sent++;
            } catch (Exception e) {
                failed++;
            }
        }
        long deadline = System.nanoTime() + 10_000_000_000L;
        while (received.get() < sent && System.nanoTime() < deadline) {
            Thread.sleep(10);
        }
        spent.end();
        consumer.shutdown();
        return result(received.get(), failed + sent - received.get(), spent, merged(taken));
    }

    private static long[] merged(ConcurrentLinkedQueue<long[]> taken) {
        long[] all = taken.stream().flatMapToLong(Arrays::stream).toArray();
        Arrays.sort(all);
        return all;
    }

    static String result(long count, long failed, Spent spent, long[] taken) {
        return String.format(
            "{\"count\":%d,\"failed\":%d,\"seconds\":%.6f,\"cpu_s\":%.6f,"
                + "\"p50_ms\":%.3f,\"p99_ms\":%.3f}",
            count, failed, spent.seconds, spent.cpuSeconds, at(taken, 0.50), at(taken, 0.99));
    }

    private static double at(long[] sorted, double part) {
        if (sorted.length == 0) {
            return -1;
        }
        return sorted[(int) Math.min(sorted.length - 1, sorted.length * part)] / 1e6;
    }
}
