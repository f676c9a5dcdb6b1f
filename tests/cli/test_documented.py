"""Pages as people follow them: links lead somewhere, commands, options and settings exist, and programs run."""

import dataclasses
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

from ottla.classic import ConsumerConfig, ProducerConfig
from ottla.classic.config import name_of
from ottla.cli.main import ottla as command
from ottla.client import security
from ottla.config import BROKER_SETTINGS, TOPIC_SETTINGS
from ottla.config.names import base_setting
from ottla.config.security import INERT, REFUSED
from ottla.config.table import DYNAMIC_SETTINGS
from ottla.mirror.config import BY_NAME as MIRROR_SETTINGS
from tests.support import readme, shown
from tests.support.readme import PROJECT

PAGES = sorted(path for path in (PROJECT / "docs").glob("**/*.md") if "benchmarks" not in str(path))
#: Of measurements, those that nobody generates.
MEASURED = [PROJECT / "docs" / name for name in ("benchmarks.md", "benchmarks/method.md", "benchmarks/notes.md")]
EVERY_PAGE = [*(PROJECT / name for name in ("README.md", "DEVELOPING.md")), *MEASURED, *PAGES]
NAMES = set(command.list_commands(None))  # type: ignore[arg-type]

OF_BROKERS = {
    *BROKER_SETTINGS,
    *DYNAMIC_SETTINGS,
    *TOPIC_SETTINGS,
    *REFUSED,
    *(name for names, _ in INERT for name in names),
}
CLASSIC = {
    name
    for config in (ConsumerConfig, ProducerConfig)
    for each in dataclasses.fields(config)
    for name in (name_of(each), *each.metadata["aliases"])
}
OF_PAGE = {
    "mirror.md": set(MIRROR_SETTINGS),
    # librdkafka's.
    "sasl.md": {"sasl.username", "sasl.password"},
    "tls.md": {"ssl.ca.location"},
    "moving-to-security.md": {"sasl.username", "sasl.password", "ssl.ca.location"},
    # Of clients: librdkafka's, and of Java's since Kafka 3.1.
    "oauth.md": {"sasl.oauthbearer.method", "sasl.oauthbearer.token.endpoint.url"},
    # Of ZooKeeper's servers.
    "zookeeper.md": {"authProvider.1"},
    # Refused.
    "acls.md": {"authorizer.zookeeper.url"},
    "classic.md": CLASSIC,
    "java-0.8.md": CLASSIC,
    "moving-consumers.md": CLASSIC,
}
#: Beside those of connections, those of Kafka's clients that pages name; Spark's option `kafka.NAME` is one of these.
OF_CLIENTS = {
    "acks",
    "auto.offset.reset",
    "batch.size",
    "bootstrap.servers",
    "buffer.memory",
    "client.id",
    "client.rack",
    "compression.type",
    "default.api.timeout.ms",
    "delivery.timeout.ms",
    "enable.idempotence",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "group.id",
    "isolation.level",
    "max.block.ms",
    "max.request.size",
    "reconnect.backoff.max.ms",
    "ssl.provider",
    "transaction.timeout.ms",
}
#: Names of other things, and settings of others.
ELSEWHERE = {
    "admin.brokers": "Python",
    "admin.groups": "Python",
    "admin.transactions": "Python",
    "asyncio.run": "Python",
    "asyncio.timeout": "Python",
    "broker.faults": "Python",
    "broker.requests": "Python",
    "broker.session.timeout.ms": "of Kafka's brokers without ZooKeeper, beside which Ottla is measured",
    "cluster.id": "a line of meta.properties",
    "consumer.obstacles": "Python",
    "df.write": "Python",
    "faults.add": "Python",
    "ottla-tree.sqlite.moved": "a file",
    "ottla.mirror.from": "a header",
    "ottla.mirror.source": "a header",
    "spark.python.unix.domain.socket.enabled": "of Spark",
    "test.mock.broker.rtt": "of librdkafka's mock cluster",
    "test.mock.num.brokers": "of librdkafka's mock cluster",
    "table.format": "a key of a pipeline's file",
}
#: Options of Kafka's tools and of Java.
OTHER_OPTIONS = {
    "--execute": "of kafka-reassign-partitions",
    "--verify": "of kafka-reassign-partitions",
    "--replica-alter-log-dirs-throttle": "of kafka-reassign-partitions",
    "--zookeeper.acl": "of zookeeper-security-migration",
    "-Djava.security.auth.login.config": "of Java",
    "-Dzookeeper.sasl.client": "of ZooKeeper's Java client",
    "-Dzookeeper.sasl.clientconfig": "of ZooKeeper's Java client",
    "-XX:+UseParallelGC": "of Java",
}
of_page = pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: str(page.relative_to(PROJECT)))


def heading(text: str) -> str:
    """The name of a heading in links, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if "://" in link:
            continue
        name, _, section = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        if section:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert section in map(heading, headings), link


@of_page
def test_commands_exist(page: Path) -> None:
    text = page.read_text()
    typed = [each for block in shown.blocks(text, "", "sh", "console") for each in shown.typed(block)]
    named = [arguments for span in shown.spans(text) if (arguments := shown.named(span)) is not None]
    faults = [shown.fault(each, is_typed=True) for each in typed] + [
        shown.fault(each, is_typed=False) for each in named
    ]
    assert [fault for fault in faults if fault] == []


@of_page
def test_options_exist(page: Path) -> None:
    """Those that a text names alone, of whatever command it is about, or of a program in `benches`."""
    named = {re.split("[ =]", span)[0] for span in shown.spans(page.read_text()) if re.match("--?[a-zA-Z]", span)}
    benches = "".join(path.read_text() for path in (PROJECT / "benches").rglob("*.py"))
    known = shown.options() | set(re.findall(r'"(--[a-z-]+)"', benches)) | OTHER_OPTIONS.keys()
    assert named - known == set()


@of_page
def test_settings_exist(page: Path) -> None:
    known = {*OF_BROKERS, *OF_CLIENTS, *security.NAMES, *security.REFUSED, *ELSEWHERE, *OF_PAGE.get(page.name, ())}
    unknown = set()
    for name in shown.settings(page.read_text()):
        # A mirror's are of a cluster or of a flow.
        own = re.sub("^([A-Z](->[A-Z])?|kafka)[.]", "", name)
        if name.startswith("ottla.") and name not in ELSEWHERE:
            pkgutil.resolve_name(name)
        elif known.isdisjoint({name, own}) and base_setting(name) is None:
            unknown.add(name)
    assert unknown == set()


def test_nothing_is_excepted_that_no_page_names() -> None:
    named = set().union(*(shown.settings(page.read_text()) for page in EVERY_PAGE))
    assert {*OF_CLIENTS, *ELSEWHERE} - named - {name.removeprefix("kafka.") for name in named} == set()


EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_commands_in_texts_of_the_code_exist() -> None:
    for file in sorted((PROJECT / "python").rglob("*.py")):
        for text in shown.texts(file.read_text()):
            for span in shown.spans(text):
                if (arguments := shown.named(span)) is not None:
                    assert shown.fault(arguments, is_typed=False) is None, file
            for extra in re.findall(r"ottla\[(\w+)\]", text):
                assert extra in EXTRAS, f"{file}: there is no extra {extra}"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("ottla broke list", "ottla has no command broke"),
        ("ottla topic creat NAME", "ottla topic has no command creat"),
        ("X=1 ottla serve --qqqq 9092", "No such option '--qqqq'."),
        ("ottla topic list | ottla topic create", "ottla topic create needs ['name']"),
        ("ottla broker balance more", "ottla broker balance takes no more"),
        ("ottla topic", "ottla topic needs a command"),
        ("ottla topic alter orders --set", "Option '--set' requires an argument."),
    ],
)
def test_a_fault_would_be_seen(line: str, fault: str) -> None:
    faults = [shown.fault(each, is_typed=True) for each in shown.typed(line)]
    assert [each for each in faults if each] == [fault]


def test_each_command_is_documented() -> None:
    text = (PROJECT / "docs" / "operations.md").read_text()
    assert [name for name in sorted(NAMES) if f"`ottla {name}`" not in text] == []


@pytest.mark.parametrize("page", readme.PAGES)
def test_each_block_is_run_or_marked_as_a_fragment(page: str) -> None:
    assert readme.unproven(page, (PROJECT / page).read_text()) == []


def test_a_block_that_nothing_runs_would_be_seen() -> None:
    added = "```sh\nottla topic list\n```\n\n```sh fragment\nottla topic list ...\n```\n"
    assert readme.unproven("docs/python.md", (PROJECT / "docs" / "python.md").read_text() + added) == [
        "ottla topic list"
    ]
