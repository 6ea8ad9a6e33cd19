"""Metrics for Prometheus, and the probes beside them: what a server or a client counts, as text.

    counters of a runtime ─► snapshot, on its loop, in parts ─► text, in a thread ─► GET /metrics

`families` says what a metric is, `exposition` writes samples as text, `pages` answers /metrics,
/healthz and /readyz, `client_metrics` is for programs that send and consume.  Who counts is above:
the broker, the name server, the clients.

It needs prometheus-client: ``pip install 'flintmq[metrics]'``.
"""
