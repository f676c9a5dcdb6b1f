"""One scrape of a broker's metrics, and its other pages."""

import urllib.error
import urllib.request

from tests.support.waiting import PATIENCE_S

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    is_there = False
else:
    is_there = True


class Scraped:
    """One scrape: values by name and labels, types by name."""

    def __init__(self, text: str) -> None:
        self.types: dict[str, str] = {}
        self.values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self.types[sample.name] = family.type
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self.values, f"twice: {key}"
                self.values[key] = sample.value

    def __call__(self, name: str, **labels: object) -> float | None:
        return self.values.get((name, frozenset((label, str(value)) for label, value in labels.items())))

    def sum(self, name: str) -> float:
        return sum(value for (sample, _), value in self.values.items() if sample == name)


def get(port: int, page: str) -> tuple[int, str]:
    """Status and body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def scrape(port: int) -> Scraped:
    status, text = get(port, "metrics")
    assert status == 200
    return Scraped(text)
