import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Load from the official gRPC client, one command per line of input, as `Load` has them.
 *
 *   send    ENDPOINTS TOPIC SIZE THREADS SECONDS
 *   receive ENDPOINTS TOPIC GROUP COUNT THREADS
 */
public class GrpcLoad {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final Map<String, Producer> PRODUCERS = new HashMap<>();

    private interface Work {
        /** Gives how many messages it has done, or -1 when it is to end. */
        int once() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] w = line.trim().split(" ");
            try {
                boolean sends = w[0].equals("send");
                System.out.println("RESULT " + (sends
                        ? send(w[1], w[2], num(w[3]), num(w[4]), num(w[5]))
                        : receive(w[1], w[2], w[3], num(w[4]), num(w[5]))));
            } catch (Throwable e) {
                System.out.println("RESULT {\"error\":\"" + e.toString().replace("\"", "'").replace("\n", " ") + "\"}");
            }
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int num(String text) {
        return Integer.parseInt(text);
    }

    private static ClientConfiguration at(String endpoints) {
        return ClientConfiguration.newBuilder().setEndpoints(endpoints).enableSsl(false).build();
    }

    /** Let threads work until each says it is at its end. */
    private static String measured(int threads, Work work) throws Exception {
        AtomicLong count = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        CountDownLatch done = new CountDownLatch(threads);
        long startNs = System.nanoTime();
        long startCpuNs = SYSTEM.getProcessCpuTime();
        for (int t = 0; t < threads; t++) {
            new Thread(() -> {
                for (int more = 0; more >= 0; ) {
                    try {
                        more = work.once();
                        count.addAndGet(Math.max(0, more));
                    } catch (Exception error) {
                        failed.incrementAndGet();
                    }
                }
                done.countDown();
            }).start();
        }
        done.await();
        double seconds = (System.nanoTime() - startNs) / 1e9;
        double cpu = (SYSTEM.getProcessCpuTime() - startCpuNs) / 1e9;
        return String.format(
                "{\"count\":%d,\"failed\":%d,\"seconds\":%f,\"cpu_s\":%f}",
                count.get(), failed.get(), seconds, cpu);
    }

    private static String send(String endpoints, String topic, int size, int threads, int seconds)
            throws Exception {
        Producer producer = PRODUCERS.get(endpoints);
        if (producer == null) {
            producer = PROVIDER.newProducerBuilder()
                    .setClientConfiguration(at(endpoints)).setTopics(topic).build();
            PRODUCERS.put(endpoints, producer);
        }
        Producer used = producer;
        byte[] body = new byte[size];
        long stop = System.nanoTime() + seconds * 1_000_000_000L;
        return measured(threads, () -> {
            if (System.nanoTime() >= stop) {
                return -1;
            }
            used.send(PROVIDER.newMessageBuilder().setTopic(topic).setBody(body).build());
            return 1;
        });
    }

    private static String receive(String endpoints, String topic, String group, int wanted, int threads)
            throws Exception {
        try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder()
                .setClientConfiguration(at(endpoints))
                .setConsumerGroup(group)
                .setAwaitDuration(Duration.ofSeconds(5))
                .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
                .build()) {
            AtomicLong left = new AtomicLong(wanted);
            return measured(threads, () -> {
                if (left.get() <= 0) {
                    return -1;
                }
                int some = 0;
                for (MessageView message : consumer.receive(32, Duration.ofSeconds(60))) {
                    consumer.ack(message);
                    some++;
                }
                left.addAndGet(-some);
                return some;
            });
        }
    }
}
