import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;

/** The messages a listener was given, in the order of arrival. */
final class Seen {
    private final List<MessageExt> messages = new ArrayList<>();

    synchronized void add(List<MessageExt> more) {
        messages.addAll(more);
    }

    synchronized int count() {
        return messages.size();
    }

    synchronized List<MessageExt> all() {
        return List.copyOf(messages);
    }

    synchronized Set<String> bodies() {
        Set<String> bodies = new HashSet<>();
        messages.forEach(message -> bodies.add(Stage.body(message)));
        return bodies;
    }

    /** Wait for so many different bodies. */
    void await(int different) throws Exception {
        Calls.await(different + " deliveries", () -> bodies().size() >= different);
    }

    void tell(Stage stage, String event) {
        all().forEach(message -> stage.tell(event, Stage.facts(message)));
    }

    MessageListenerConcurrently concurrently() {
        return (given, context) -> {
            add(given);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    MessageListenerOrderly orderly() {
        return (given, context) -> {
            add(given);
            return ConsumeOrderlyStatus.SUCCESS;
        };
    }
}
