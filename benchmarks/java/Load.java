import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
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
 *   pull    NAMESRV TOPIC COUNT
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
            case "pull": return pull(w[1], w[2], num(w[3]));
            case "latency": return latency(w[1], w[2], num(w[3]), num(w[4]));
            default: throw new IllegalArgumentException(w[0]);
        }
    }

    private static int num(String text) {
        return Integer.parseInt(text);
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
        long start = System.nanoTime();
        long stop = start + seconds * 1_000_000_000L;
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
        double elapsed = (System.nanoTime() - start) / 1e9;
        return result(count.get(), failed.get(), elapsed, merged(taken));
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
        long start = System.nanoTime();
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
        double elapsed = (System.nanoTime() - start) / 1e9;
        consumer.shutdown();
        return String.format("{\"count\":%d,\"failed\":0,\"seconds\":%.6f,\"bytes\":%d}",
            count, elapsed, bytes);
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
        double elapsed = (System.nanoTime() - start) / 1e9;
        consumer.shutdown();
        return result(received.get(), failed + sent - received.get(), elapsed, merged(taken));
    }

    private static long[] merged(ConcurrentLinkedQueue<long[]> taken) {
        long[] all = taken.stream().flatMapToLong(Arrays::stream).toArray();
        Arrays.sort(all);
        return all;
    }

    private static String result(long count, long failed, double seconds, long[] taken) {
        return String.format(
            "{\"count\":%d,\"failed\":%d,\"seconds\":%.6f,\"p50_ms\":%.3f,\"p99_ms\":%.3f}",
            count, failed, seconds, at(taken, 0.50), at(taken, 0.99));
    }

    private static double at(long[] sorted, double part) {
        if (sorted.length == 0) {
            return -1;
        }
        return sorted[(int) Math.min(sorted.length - 1, sorted.length * part)] / 1e6;
    }
}
