import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Semaphore;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Does things with accounts, one line of input each: the words are those of
 * support/interop/account_programs.py.  END ends what a line started; any other line that is no
 * request lets a listener go on.
 */
public final class Account {
    private static final List<Runnable> STARTED = new ArrayList<>();
    private static final Semaphore GOES_ON = new Semaphore(0);
    private static PrintStream out;
    private static int number;

    private Account() {}

    public static void main(String[] args) throws Exception {
        out = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (line.equals("END")) {
                STARTED.forEach(Runnable::run);
                STARTED.clear();
                GOES_ON.drainPermits();
                say("ENDED");
            } else if (words.length == 1) {
                GOES_ON.release();
            } else {
                number++;
                synchronized (Account.class) { // what a listener hears meanwhile is said after it
                    say(done(words));
                }
            }
        }
        System.exit(0);
    }

    private static synchronized void say(String line) {
        out.println(line);
    }

    private static String done(String[] words) {
        String namesrv = words[0];
        RPCHook hook =
                words[2].equals("-")
                        ? null
                        : new AclClientRPCHook(new SessionCredentials(words[2], words[3]));
        String[] names = Arrays.copyOfRange(words, 5, words.length);
        try {
            switch (words[4]) {
                case "SEND":
                    send(namesrv, hook, names[0], 1);
                    return "OK";
                case "BATCH":
                    send(namesrv, hook, names[0], 2);
                    return "OK";
                case "PULL":
                    pull(namesrv, hook, names[0], names[1]);
                    return "OK";
                case "TOPIC":
                    topic(namesrv, words[1], hook, names[0]);
                    return "OK";
                default:
                    push(words[4], namesrv, hook, names[0], names[1], names[2]);
                    return "STARTED";
            }
        } catch (Throwable failed) {
            for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
                if (cause instanceof MQBrokerException) {
                    MQBrokerException refused = (MQBrokerException) cause;
                    String text = String.valueOf(refused.getErrorMessage());
                    return "FAILED " + refused.getResponseCode() + " " + text.replace('\n', ' ');
                }
            }
            if (failed instanceof MQClientException) { // what an admin is told
                MQClientException told = (MQClientException) failed;
                String text = String.valueOf(told.getErrorMessage());
                return "FAILED " + told.getResponseCode() + " " + text.replace('\n', ' ');
            }
            return "FAILED " + String.valueOf(failed).replace('\n', ' ');
        }
    }

    private static void send(String namesrv, RPCHook hook, String topic, int count)
            throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producers", hook);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("account" + number);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(15_000);
        producer.start();
        try {
            List<Message> messages = new ArrayList<>();
            for (int made = 0; made < count; made++) {
                messages.add(new Message(topic, "hello".getBytes(StandardCharsets.UTF_8)));
            }
            if (count == 1) {
                producer.send(messages.get(0));
            } else {
                producer.send(messages);
            }
        } finally {
            producer.shutdown();
        }
    }

    private static void pull(String namesrv, RPCHook hook, String group, String topic)
            throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group, hook);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("account" + number);
        consumer.start();
        try {
            consumer.fetchSubscribeMessageQueues(topic);
            consumer.pull(new MessageQueue(topic, "broker-a", 0), "*", 0, 1, 15_000);
        } finally {
            consumer.shutdown();
        }
    }

    private static void topic(String namesrv, String broker, RPCHook hook, String name)
            throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(hook, 15_000);
        admin.setNamesrvAddr(namesrv);
        admin.setInstanceName("account" + number);
        admin.start();
        try {
            admin.createAndUpdateTopicConfig(broker, new TopicConfig(name));
        } finally {
            admin.shutdown();
        }
    }

    private static void push(
            String verb, String namesrv, RPCHook hook, String group, String topic, String wanted)
            throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        if (hook != null) {
            consumer = new DefaultMQPushConsumer(null, group, hook);
        }
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("account" + number);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        boolean fails = verb.equals("BACK");
        if (verb.equals("ORDERLY")) {
            consumer.registerMessageListener(
                    (MessageListenerOrderly)
                            (messages, context) -> {
                                mustRetry(messages, wanted, false);
                                return ConsumeOrderlyStatus.SUCCESS;
                            });
        } else {
            consumer.registerMessageListener(
                    (MessageListenerConcurrently)
                            (messages, context) ->
                                    mustRetry(messages, wanted, fails)
                                            ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                                            : ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        }
        consumer.start();
        STARTED.add(consumer::shutdown);
    }

    /** Says whether a wanted message came, and whether it has to fail once. */
    private static boolean mustRetry(List<MessageExt> messages, String wanted, boolean fails) {
        for (MessageExt message : messages) {
            if (!new String(message.getBody(), StandardCharsets.UTF_8).equals(wanted)) {
                continue;
            }
            say("HEARD " + message.getReconsumeTimes());
            if (fails && message.getReconsumeTimes() == 0) {
                GOES_ON.acquireUninterruptibly();
                return true;
            }
        }
        return false;
    }
}
