"""`/metrics` as Prometheus' own parser reads it: every family has help and a type, counters are named as such, histograms add up."""

import os
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

page = urllib.request.urlopen(f"http://127.0.0.1:{os.environ['SHARDINE_HTTP_PORT']}/metrics").read().decode()
families = list(text_string_to_metric_families(page))
assert len(families) > 50, f"only {len(families)} families"

for family in families:
    assert family.documentation, f"{family.name} has no help"
    assert family.type in ("gauge", "counter", "histogram"), f"{family.name} is {family.type}"
    if family.type != "histogram":
        continue
    counts = {}
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        if sample.name.endswith("_bucket"):
            buckets = counts.setdefault(labels, [])
            assert not buckets or buckets[-1] <= sample.value, f"{family.name} {labels}: buckets must not fall"
            buckets.append(sample.value)
        elif sample.name.endswith("_count"):
            assert counts[labels][-1] == sample.value, f"{family.name} {labels}: the last bucket holds all"

print(f"{len(families)} families")
