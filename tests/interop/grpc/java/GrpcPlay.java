import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionChecker;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * Scenarios of the official Java client of 5.x:
 * GrpcPlay ENDPOINTS PREFIX tls|plain [ACCESS_KEY SECRET_KEY].  Every event is a line of JSON.
 */
public final class GrpcPlay {
    private static final long LIMIT_S = 150;
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static ClientConfiguration configuration;
    private static String prefix;

    private interface Scenario {
        void play() throws Exception;
    }

    private interface Work {
        void with(Producer producer) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder().setEndpoints(args[0]);
        if (args[2].equals("plain")) {
            builder.enableSsl(false);
        }
        if (args.length > 4) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(args[3], args[4]));
        }
        configuration = builder.build();
        prefix = args[1];
        List<Thread> threads = new ArrayList<>();
        threads.add(start("normal", GrpcPlay::normal));
        threads.add(start("sql", GrpcPlay::sql));
        threads.add(start("simple", GrpcPlay::simple));
        threads.add(start("fifo", GrpcPlay::fifo));
        threads.add(start("delay", GrpcPlay::delay));
        threads.add(start("tx", GrpcPlay::tx));
        threads.add(start("dead", GrpcPlay::dead));
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static Thread start(String name, Scenario scenario) {
        Thread thread = new Thread(() -> {
            String failure = null;
            try {
                scenario.play();
            } catch (Throwable error) {
                java.io.StringWriter text = new java.io.StringWriter();
                error.printStackTrace(new java.io.PrintWriter(text));
                failure = text.toString();
            }
            tell(name, "end", "\"failure\":" + (failure == null ? "null" : quoted(failure)));
        });
        thread.start();
        return thread;
    }

    private static synchronized void tell(String scenario, String event, String more) {
        System.out.println("{\"scenario\":" + quoted(scenario) + ",\"event\":" + quoted(event)
            + ",\"at\":" + System.currentTimeMillis() / 1000.0 + (more.isEmpty() ? "" : "," + more) + "}");
        System.out.flush();
    }

    private static String quoted(String text) {
        StringBuilder made = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                made.append('\\').append(each);
            } else if (each < 0x20) {
                made.append(String.format("\\u%04x", (int) each));
            } else {
                made.append(each);
            }
        }
        return made.append('"').toString();
    }

    private static String body(MessageView got) {
        ByteBuffer buffer = got.getBody();
        byte[] octets = new byte[buffer.remaining()];
        buffer.get(octets);
        return new String(octets, StandardCharsets.UTF_8);
    }

    private static void tellMessage(String scenario, String event, MessageView got) {
        List<String> keys = new ArrayList<>();
        for (String key : new TreeSet<>(got.getKeys())) {
            keys.add(quoted(key));
        }
        List<String> properties = new ArrayList<>();
        for (Map.Entry<String, String> entry : got.getProperties().entrySet()) {
            properties.add(quoted(entry.getKey()) + ":" + quoted(entry.getValue()));
        }
        tell(scenario, event, "\"body\":" + quoted(body(got))
            + ",\"tag\":" + quoted(got.getTag().orElse(""))
            + ",\"keys\":[" + String.join(",", keys) + "]"
            + ",\"properties\":{" + String.join(",", properties) + "}"
            + ",\"attempt\":" + got.getDeliveryAttempt()
            + ",\"group\":" + quoted(got.getMessageGroup().orElse("")));
    }

    private static String name(String scenario) {
        return prefix + "-" + scenario;
    }

    private static MessageBuilder message(String scenario, String body) {
        return PROVIDER.newMessageBuilder().setTopic(name(scenario))
            .setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    private static void withProducer(String scenario, TransactionChecker checker, Work work)
        throws Exception {
        ProducerBuilder builder = PROVIDER.newProducerBuilder()
            .setClientConfiguration(configuration).setTopics(name(scenario));
        if (checker != null) {
            builder.setTransactionChecker(checker);
        }
        try (Producer producer = builder.build()) {
            work.with(producer);
        }
    }

    private static PushConsumer consumer(
        String scenario, int count, FilterExpression filter, boolean fails, CountDownLatch done)
        throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        return PROVIDER.newPushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(name(scenario))
            .setSubscriptionExpressions(Collections.singletonMap(name(scenario), filter))
            .setMessageListener(got -> {
                tellMessage(scenario, "got", got);
                left.countDown();
                if (left.getCount() == 0) {
                    done.countDown();
                }
                return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            })
            .build();
    }

    private static void consume(String scenario, int count, FilterExpression filter)
        throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        try (PushConsumer ignored = consumer(scenario, count, filter, false, done)) {
            if (!done.await(LIMIT_S, TimeUnit.SECONDS)) {
                tell(scenario, "late", "");
            }
            Thread.sleep(1000); // acknowledgements are sent in the background
        }
    }

    private static void sendColours(String scenario) throws Exception {
        withProducer(scenario, null, producer -> {
            for (int number = 0; number < 10; number++) {
                Message made = message(scenario, "m" + number).setTag(number % 2 == 0 ? "a" : "b")
                    .setKeys("k" + number).addProperty("color", "blue")
                    .addProperty("number", String.valueOf(number)).build();
                tell(scenario, "sent", "\"id\":" + quoted(producer.send(made).getMessageId().toString()));
            }
        });
    }

    private static void normal() throws Exception {
        sendColours("normal");
        consume("normal", 5, new FilterExpression("a || c", FilterExpressionType.TAG));
    }

    private static void sql() throws Exception {
        sendColours("sql");
        consume("sql", 3,
            new FilterExpression("number < 3 AND color = 'blue'", FilterExpressionType.SQL92));
    }

    private static SimpleConsumer simpleConsumer(String topic, String group) throws Exception {
        return PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(group)
            .setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .build();
    }

    private static void simple() throws Exception {
        withProducer("simple", null, producer -> {
            for (int number = 0; number < 4; number++) {
                producer.send(message("simple", "s" + number).build());
            }
        });
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S);
        boolean changed = false;
        int settled = 0;
        try (SimpleConsumer consumer = simpleConsumer(name("simple"), name("simple"))) {
            while (settled < 4 && System.nanoTime() < end) {
                for (MessageView got : consumer.receive(2, Duration.ofSeconds(20))) {
                    tellMessage("simple", "got", got);
                    if (!changed) {
                        changed = true;
                        consumer.changeInvisibleDuration(got, Duration.ofSeconds(1));
                    } else {
                        consumer.ack(got);
                        settled++;
                    }
                }
            }
        }
    }

    private static void fifo() throws Exception {
        withProducer("fifo", null, producer -> {
            for (int number = 0; number < 10; number++) {
                producer.send(message("fifo", "f" + number).setMessageGroup("one").build());
            }
        });
        consume("fifo", 10, FilterExpression.SUB_ALL);
    }

    private static void delay() throws Exception {
        withProducer("delay", null, producer -> {
            long now = System.currentTimeMillis();
            producer.send(message("delay", String.valueOf(now / 1000.0))
                .setDeliveryTimestamp(now + 4000).build());
        });
        consume("delay", 1, FilterExpression.SUB_ALL);
    }

    private static void tx() throws Exception {
        TransactionChecker checker = got -> {
            tellMessage("tx", "check", got);
            // A broker may ask about what was rolled back before it has heard of it.
            return body(got).equals("rollback")
                ? TransactionResolution.ROLLBACK : TransactionResolution.COMMIT;
        };
        withProducer("tx", checker, producer -> {
            for (String body : new String[] {"commit", "rollback", "forgotten"}) {
                Transaction transaction = producer.beginTransaction();
                producer.send(message("tx", body).build(), transaction);
                if (body.equals("commit")) {
                    transaction.commit();
                } else if (body.equals("rollback")) {
                    transaction.rollback();
                }
            }
            consume("tx", 2, FilterExpression.SUB_ALL);
        });
    }

    private static void dead() throws Exception {
        withProducer("dead", null, producer -> producer.send(message("dead", "poison").build()));
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S);
        CountDownLatch done = new CountDownLatch(1);
        try (PushConsumer ignored =
            consumer("dead", 2, FilterExpression.SUB_ALL, true, done)) {
            if (!done.await(LIMIT_S, TimeUnit.SECONDS)) {
                tell("dead", "late", "");
            }
            while (System.nanoTime() < end) {
                try (SimpleConsumer letters = simpleConsumer("%DLQ%" + name("dead"), name("burial"))) {
                    while (System.nanoTime() < end) {
                        for (MessageView got : letters.receive(1, Duration.ofSeconds(20))) {
                            tellMessage("dead", "buried", got);
                            letters.ack(got);
                            return;
                        }
                    }
                } catch (Exception error) {
                    Thread.sleep(1000); // the topic of dead letters is not there yet
                }
            }
        }
    }
}
