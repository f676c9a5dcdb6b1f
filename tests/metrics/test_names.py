"""The names: what a Kafka 2.7.2 with the JMX exporter serves is the judge.

`kafka-2.7.2.txt` holds, for every metric, its name, its type and the sets of labels that its samples have ("-" for
none). It was written from what `jmx_prometheus_javaagent` 1.0.1 with `kafka-2_0_0.yml` served of a broker with a topic,
a producer and a consumer group.
"""

from pathlib import Path

from ottla.metrics import reference
from ottla.metrics.families import FAMILIES, KAFKA, KAFKA_EXPORTER, THROTTLED, TRAFFIC

PROJECT = Path(__file__).parents[2]


def kafkas() -> dict[str, tuple[str, set[str]]]:
    """Type and sets of labels by name."""
    lines = Path(__file__).with_name("kafka-2.7.2.txt").read_text().splitlines()
    return {name: (kind, set(labels)) for name, kind, *labels in map(str.split, lines)}


def test_what_has_a_name_of_kafkas_is_what_kafka_has_under_it() -> None:
    judge = kafkas()
    ours = [family for family in FAMILIES if family.origin == KAFKA]
    assert len(ours) > 50
    for family in ours:
        kind, labels = judge[family.name]
        assert family.type == kind, family.name
        forms = {",".join(sorted(family.labels)) or "-"}
        if family in TRAFFIC.values():
            # Kafka has a row for a topic from the first time that it counts.
            assert labels <= forms | {"-"}, family.name
        else:
            assert forms == labels, family.name


def test_what_kafka_has_and_we_do_not_is_said() -> None:
    missing = kafkas().keys() - {family.name for family in FAMILIES}
    unsaid = [name for name in sorted(missing) if not name.startswith(tuple(reference.ABSENT))]
    assert unsaid == []
    needless = [each for each in reference.ABSENT if not any(name.startswith(each) for name in missing)]
    assert needless == []


def test_each_mbean_is_the_metric_that_the_exporter_makes_of_it() -> None:
    for bean, family in reference.CLUSTER.items():
        if family.origin == KAFKA:
            domain, _, keys = bean.partition(":")
            key = dict(each.split("=") for each in keys.split(","))
            name = f"{domain}_{key['type']}_{key['name']}".replace(".", "_").lower()
            assert family.name == (f"{name.removesuffix('persec')}_total" if name.endswith("persec") else name)
            assert set(family.labels) == key.keys() - {"type", "name"} | ({"quantile"} & set(family.labels))
        else:
            assert family is THROTTLED


def test_nothing_else_looks_like_kafkas() -> None:
    for family in FAMILIES:
        if family.origin != KAFKA:
            prefix = "kafka_consumergroup_" if family.origin == KAFKA_EXPORTER else "ottla_"
            assert family.name.startswith(prefix)
            assert family.name not in kafkas()
        assert family.name.endswith("_total") == (family.type == "counter"), family.name
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_the_page_is_in_step_with_the_families() -> None:
    assert (PROJECT / "docs" / "metrics.md").read_text() == reference.render(), "run `make docs`"
