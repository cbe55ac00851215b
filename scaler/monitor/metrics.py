"""Metrics: the views of a cluster in the text format of Prometheus.

While the scheduler is silent, `scaler_up` is 0 and the metrics of the cluster are left out, so that diagrams have gaps
instead of old values. The number of time series is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from scaler.monitor.model.functions import run_counts
from scaler.monitor.model.model import Model
from scaler.monitor.model.verdict import verdict
from scaler.monitor.views.catalog import VIEWS
from scaler.monitor.views.view import COUNTER, Field, View, ViewState
from scaler.monitor.views.work import FUNCTIONS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DURATION_BUCKETS = range(10, 31, 2)
"""The limits of the buckets of durations, as powers of two in microseconds: 1 ms to 18 minutes."""


def exposition(model: Model, now: float) -> bytes:
    """Return the state of a model as metrics; `now`: seconds, by the same clock as in `Model.take`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(model, now))
    return generate_latest(registry)


class _Scrape(Collector):
    def __init__(self, model: Model, now: float) -> None:
        self._state = ViewState(model, now)

    def collect(self) -> Iterator[Metric]:
        model, now = self._state.model, self._state.now
        is_live = model.scheduler is not None and model.silent_seconds(now) is None
        yield GaugeMetricFamily("scaler_up", "1 if the scheduler answers, else 0", value=int(is_live))
        text = "Messages of the monitor stream that were lost"
        yield CounterMetricFamily("scaler_monitor_missed_messages", text, value=model.missed)
        if model.scheduler is None or not is_live:
            return
        yield _info("scaler_build_info", "Version of the scheduler", "version", model.scheduler.package_version)
        text = "What limits the cluster: a word such as workers, scheduler or idle, or requested capabilities"
        yield _info("scaler_verdict_info", text, "verdict", verdict(model, now).word)
        for view in VIEWS.values():
            yield from _of_view(view, self._state)
        yield _durations(self._state)


def _info(name: str, text: str, label: str, value: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    family.add_metric([value], 1)
    return family


def _of_view(view: View, state: ViewState) -> Iterator[Metric]:
    """Yield the metrics of a view; equal labels of several subjects are one sample, the sum of their values."""
    columns = [each for each in view.fields if each.metric is not None]
    subjects = list(islice(view.rows(state), view.metrics_most)) if columns else []
    labels = [tuple(value(each) for _, value in view.labels) for each in subjects]
    found: dict[str, tuple[Field, dict[tuple[str, ...], float]]] = {}
    for column in columns:
        metric = column.metric
        assert metric is not None
        extra = tuple(value for _, value in metric.extra)
        _, samples = found.setdefault(metric.name, (column, {}))
        for subject, usual in zip(subjects, labels, strict=True):
            value = column.value(state, subject)
            if value is not None:
                own = usual if metric.labels is None else tuple(value(subject) for _, value in metric.labels)
                key = (*own, *extra)
                samples[key] = samples.get(key, 0.0) + float(value)
    for column, samples in found.values():
        yield _family(view, column, samples)


def _family(view: View, column: Field, samples: dict[tuple[str, ...], float]) -> Metric:
    metric = column.metric
    assert metric is not None
    kind: type[CounterMetricFamily | GaugeMetricFamily]
    kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.text(view, column), labels=metric.label_names(view))
    for labels, value in samples.items():
        family.add_metric(labels, value)
    return family


def _durations(state: ViewState) -> Metric:
    names = [name for name, _ in FUNCTIONS.labels]
    family = HistogramMetricFamily("scaler_function_duration_seconds", "Duration of runs of a function", labels=names)
    for each in islice(FUNCTIONS.rows(state), FUNCTIONS.metrics_most):
        if counts := run_counts(each):
            labels = [value(each) for _, value in FUNCTIONS.labels]
            family.add_metric(labels, duration_buckets(counts), each.run_us / 1e6)
    return family


def duration_buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return the limits in seconds and the cumulative numbers of runs, from numbers by powers of two."""
    buckets = [(repr((1 << power) / 1e6), float(sum(counts[: power + 1]))) for power in DURATION_BUCKETS]
    return [*buckets, ("+Inf", float(sum(counts)))]
