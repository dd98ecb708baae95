"""Metrics for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ds2.serve.messages import Step

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
SIZES = (*range(1, 21), 24, 32, 48, 64)
FRAME_SECONDS = 0.01


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def histogram(name: str, text: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
            return Histogram(f"ds2_{name}", text, buckets=buckets, registry=registry)

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"ds2_{name}", text, labels, registry=registry)

        self.latency = histogram("final_latency_seconds", "From a live client's eof or reset to the final result")
        self.upload_latency = histogram("upload_seconds", "From the end of an upload to its transcript")
        self.batch_size = histogram("batch_size", "Streams in a step of the model", SIZES)
        self.step_seconds = histogram("step_seconds", "Time of a step, decoding included")
        self.waited = histogram("wait_seconds", "Time that the oldest chunk of a batch had waited")
        self.sound = counter("sound_seconds_total", "Sound that the model has processed")
        self.busy = counter(
            "busy_seconds_total", "Time in steps of the model; divided by the sound it is the real-time factor"
        )
        self.opened = counter("streams_opened_total", "Streams opened", ("kind",))
        self.rejected = counter("rejections_total", "Streams and uploads refused", ("reason",))
        self.failures = counter("failures_total", "Streams that failed")
        self.restarts = counter("worker_restarts_total", "Model processes that stopped and were started again")
        self.streams = Gauge("ds2_streams_open", "Streams open now", registry=registry)
        self.queue = Gauge("ds2_queue_chunks", "Chunks that wait for all model processes", registry=registry)

    def step(self, step: Step) -> None:
        """Counts a step of the model."""
        self.batch_size.observe(step.size)
        self.step_seconds.observe(step.seconds)
        self.waited.observe(step.waited)
        self.busy.inc(step.seconds)
        self.sound.inc(step.size * step.frames * FRAME_SECONDS)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
