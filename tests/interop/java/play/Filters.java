import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.common.message.Message;

/** Subscriptions that take only some messages of a topic. */
final class Filters {
    private Filters() {}

    /** "Aa" and "BB" have the same hash, so the broker lets both through and the client only one. */
    static void tags(Stage stage) throws Exception {
        String topic = stage.topic("t", 2);
        for (int i = 0; i < 3; i++) {
            for (String tag : new String[] {"Aa", "BB", "c", "d", ""}) {
                stage.send(topic, tag, tag + i);
            }
        }
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = stage.pusher("g", topic, "Aa || c");
        consumer.registerMessageListener(seen.concurrently());
        consumer.start();
        seen.await(6);
        stage.send(topic, "d", "d late");
        stage.send(topic, "c", "c late");
        seen.await(7);
        seen.tell(stage, "seen");
    }

    static void sql(Stage stage) throws Exception {
        String topic = stage.topic("t", 2);
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = stage.pusher("g", null, null);
        String wanted = "(TAGS IS NOT NULL AND TAGS = 'paid') AND price > 10.5 AND area IN ('eu', 'us')";
        consumer.subscribe(topic, MessageSelector.bySql(wanted));
        consumer.registerMessageListener(seen.concurrently());
        priced(stage, topic, "early");
        consumer.start();
        seen.await(2);
        priced(stage, topic, "late");
        seen.await(4);
        seen.tell(stage, "seen");
    }

    private static void priced(Stage stage, String topic, String when) throws Exception {
        for (String area : new String[] {"eu", "us", "asia", null}) {
            for (String tag : new String[] {"paid", "open"}) {
                for (int price : new int[] {10, 11}) {
                    String body = String.join(" ", when, tag, "" + price, "" + area);
                    Message message = stage.message(topic, tag, body);
                    message.putUserProperty("price", "" + price);
                    if (area != null) {
                        message.putUserProperty("area", area);
                    }
                    stage.producer().send(message);
                }
            }
        }
    }

    static void sqlRefused(Stage stage) throws Exception {
        String topic = stage.topic("t", 1);
        DefaultMQPushConsumer consumer = stage.pusher("g", null, null);
        consumer.subscribe(topic, MessageSelector.bySql("price >"));
        consumer.registerMessageListener(new Seen().concurrently());
        stage.refused("start", consumer::start);
    }
}
