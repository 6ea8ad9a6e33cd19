"""OpenTelemetry traces of sends, listeners, pulls and commits, by the conventions for messaging.

    telemetry = OpenTelemetry()
    with telemetry.producer(Producer("shop", namesrv=…)) as producer:
        producer.send(Message("orders", b"…"))
    PushConsumer("billing", listen, consume_hooks=(telemetry,), namesrv=…)

    span "send orders" ─► property traceparent ─► broker ─► span "receive orders"
                                                              └─► listener in span "process orders"
                                                                     └─► span "commit orders"

The context travels in the properties of a message, under the names of the propagator that is set,
as with the instrumentations of RocketMQ's Java clients: either end may be Java.  A listener of one
message runs in a child of the span that sent it; a batch has one span with a link to each.

`telemetry` makes the spans of consumers, `traced_producer` those of producers, `conventions` has
their names.  It needs opentelemetry-api: ``pip install 'flintmq[otel]'``.  Without an SDK nothing
is recorded.
"""

from flintmq.otel.conventions import SCOPE
from flintmq.otel.telemetry import OpenTelemetry
from flintmq.otel.traced_producer import SendSpan, TracedProducer

__all__ = ["SCOPE", "OpenTelemetry", "SendSpan", "TracedProducer"]
