"""What a worker counts, for Prometheus."""

from __future__ import annotations

from ...engines.base import MissingExtra
from .slots import Occupancy, Refusal

try:
    from prometheus_client import (
        CONTENT_TYPE_LATEST,
        REGISTRY,
        CollectorRegistry,
        Counter,
        Gauge,
        Histogram,
        generate_latest,
    )
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

CONTENT_TYPE = CONTENT_TYPE_LATEST
_LATENCY_BUCKETS_S = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)


class WorkerMetrics:
    """The counters of one worker.  Safe from any thread."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._slots = Gauge("venus_slots", "Calls that this worker can hold.", registry=self._registry)
        self._in_use = Gauge("venus_slots_in_use", "Places that are taken.", registry=self._registry)
        self._ready = Gauge("venus_ready", "1 when a job would be taken.", registry=self._registry)
        self._active = Gauge("venus_active_jobs", "Jobs whose conversation is going on.", registry=self._registry)
        self._accepted = Counter("venus_jobs_accepted", "Jobs that were taken.", registry=self._registry)
        self._refused = Counter("venus_jobs_refused", "Jobs that were refused.", ["reason"], registry=self._registry)
        self._ended = Counter("venus_sessions_ended", "Conversations that ended.", ["reason"], registry=self._registry)
        self._tokens = Counter("venus_tokens", "Requests for a token.", ["outcome"], registry=self._registry)
        self._latency = Histogram(
            "venus_response_latency_seconds",
            "The user's last sound to the first sound of the answer, at the room's edge.",
            buckets=_LATENCY_BUCKETS_S,
            registry=self._registry,
        )
        for reason in Refusal:
            self._refused.labels(reason.value)  # a series that is there from the start can be compared with later

    def accepted(self) -> None:
        """A job was taken."""
        self._accepted.inc()

    def refused(self, reason: Refusal) -> None:
        """A job was not taken."""
        self._refused.labels(reason.value).inc()

    def token(self, outcome: str) -> None:
        """Somebody asked for a token: it was ``given``, or what the refusal is called."""
        self._tokens.labels(outcome).inc()

    def began(self) -> None:
        """A conversation began."""
        self._active.inc()

    def ended(self, reason: str) -> None:
        """A conversation that :meth:`began` is over."""
        self._active.dec()
        self._ended.labels(reason).inc()

    def answered(self, latency_ms: float) -> None:
        """How long the user waited for an answer."""
        self._latency.observe(latency_ms / 1000)

    def page(self, occupancy: Occupancy, *, ready: bool) -> bytes:
        """All of it, and what the libraries of this process count, in Prometheus' text format."""
        self._slots.set(occupancy.slots)
        self._in_use.set(occupancy.in_use)
        self._ready.set(ready)
        return generate_latest(self._registry) + generate_latest(REGISTRY)
