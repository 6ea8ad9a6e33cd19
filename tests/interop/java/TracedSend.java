import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.ContextPropagators;
import io.opentelemetry.instrumentation.rocketmqclient.v4_8.RocketMqTelemetry;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Sends one message inside a span, with OpenTelemetry's hook; prints trace and span. */
public final class TracedSend {
    public static void main(String[] args) throws Exception {
        OpenTelemetrySdk sdk =
                OpenTelemetrySdk.builder()
                        .setTracerProvider(SdkTracerProvider.builder().build())
                        .setPropagators(
                                ContextPropagators.create(W3CTraceContextPropagator.getInstance()))
                        .build();
        DefaultMQProducer producer = new DefaultMQProducer("java-traced");
        producer.setNamesrvAddr(args[0]);
        producer.getDefaultMQProducerImpl()
                .registerSendMessageHook(RocketMqTelemetry.create(sdk).newTracingSendMessageHook());
        producer.start();
        Span order = sdk.getTracer("shop").spanBuilder("order").startSpan();
        try (Scope scope = order.makeCurrent()) {
            producer.send(new Message(args[1], "o-1".getBytes(StandardCharsets.UTF_8)), 60_000);
        } finally {
            order.end();
        }
        producer.shutdown();
        System.out.println("TRACE " + order.getSpanContext().getTraceId());
    }
}
