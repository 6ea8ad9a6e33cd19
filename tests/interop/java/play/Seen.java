import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;

/** What a listener was given, in the order of arrival, as it was then: a retry changes messages. */
final class Seen {
    private final List<Object[]> facts = new ArrayList<>();
    private final Set<String> bodies = new HashSet<>();

    synchronized void add(List<MessageExt> messages) {
        for (MessageExt message : messages) {
            facts.add(Stage.facts(message));
            bodies.add(Stage.body(message));
        }
    }

    synchronized int count() {
        return facts.size();
    }

    synchronized int different() {
        return bodies.size();
    }

    synchronized Set<String> bodies() {
        return new HashSet<>(bodies);
    }

    /** Wait for so many different bodies. */
    void await(int different) throws Exception {
        Calls.await(different + " deliveries", () -> different() >= different);
    }

    synchronized void tell(Stage stage, String event) {
        facts.forEach(one -> stage.tell(event, one));
    }

    MessageListenerConcurrently concurrently() {
        return (given, context) -> {
            add(given);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    MessageListenerConcurrently failing() {
        return (given, context) -> {
            add(given);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        };
    }

    MessageListenerOrderly orderly() {
        return (given, context) -> {
            add(given);
            return ConsumeOrderlyStatus.SUCCESS;
        };
    }
}
