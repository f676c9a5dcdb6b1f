"""The HTTP endpoints for Prometheus, Kubernetes and people with curl: /metrics, /healthz, /readyz.

Nothing here knows what a broker is: `families.py` names what can be told, `exposition.py` writes it as Prometheus reads
it, `http.py` serves it. `ottla.broker.watching` looks at the broker. prometheus_client and h11 are imported only
where they are used, and used only where `metrics.listener` is set.
"""
