"""The wheel, as a user without Rust gets it: in an empty environment, with no compiler in reach."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[1]


STAMP = ROOT / ".stamps" / "build"


RELEASE = pytest.param("release", marks=pytest.mark.judge)


@pytest.fixture(scope="module", params=["as it was built", RELEASE])
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In the gate the wheel has the module that is built already: whole optimisation takes minutes. `.ci/run` makes it
    when it has built the module, before the Rust tests build theirs in its place: $OTTLA_WHEELS is its folder.
    """
    folder = tmp_path_factory.mktemp("wheel")
    wheels = Path(os.environ.get("OTTLA_WHEELS", folder / "dist"))
    if request.param == "release" or not wheels.exists():
        wheels = folder / "dist"
        built = STAMP.read_text().strip() if STAMP.exists() else ""
        profile = request.param if request.param == "release" else built or "release"
        make = ["make", "--silent", "wheel", f"WHEEL_PROFILE={profile}", f"DIST={wheels}"]
        subprocess.run(make, cwd=ROOT, check=True)
    (wheel,) = wheels.glob("ottla-*.whl")
    assert "-abi3-" in wheel.name
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python"]
    subprocess.run([*pip, "install", "--quiet", wheel], check=True)
    return folder


def surroundings(environment: Path, **others: str) -> dict[str, str]:
    """The variables of a process that finds the environment's programs and no other: no compiler, no Java, no Spark."""
    hidden = ("PYTHON", "SPARK", "JAVA", "CARGO", "OTTLA")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "PATH": str(environment / "bin"), "HOME": str(environment), **others}


def attempt(environment: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [environment / "bin" / arguments[0], *arguments[1:]]
    variables = surroundings(environment, **variables)
    return subprocess.run(
        command, env=variables, cwd=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def run(environment: Path, *arguments: str, **variables: str) -> str:
    done = attempt(environment, *arguments, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def serving(environment: Path, data: str) -> Iterator[str]:
    """HOST:PORT of a broker of the environment, which is told to stop in the end, and ends with 0."""
    serve = [environment / "bin/ottla", "serve", "--data-dir", environment / data, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(serve, env=surroundings(environment), stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            yield broker.stdout.readline().split()[-1]
        finally:
            broker.terminate()
        assert broker.wait(PATIENCE_S) == 0


def test_the_command_runs(environment: Path) -> None:
    assert "serve" in run(environment, "ottla", "--help")


def test_it_says_which_commit_it_is_of(environment: Path) -> None:
    describe = ["git", "describe", "--always", "--exclude=*", "--abbrev=8"]
    known = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True).stdout.strip() or "unknown"
    assert re.fullmatch(
        rf"ottla \S+ \(commit {known}(-dirty)?, (quick|release)\)\n", run(environment, "ottla", "--version")
    )


@pytest.mark.parametrize("environment", [RELEASE], indirect=True)
def test_a_release_has_no_symbols(environment: Path) -> None:
    """Panics still say their places, which are texts of the program."""
    (module,) = environment.glob("lib/*/site-packages/ottla/_core.abi3.so")
    sections = subprocess.run(["readelf", "-SW", module], check=True, capture_output=True, text=True).stdout
    assert ".rodata" in sections
    assert not {".symtab", ".debug_line", ".debug_info"} & set(sections.split())
    assert b"rust/records/" in module.read_bytes()
    assert module.stat().st_size < 10_000_000


def test_it_has_types_licences_and_nothing_of_the_work_tree(environment: Path) -> None:
    files = set(run(environment, "python", "-c", METADATA_FILES).splitlines())
    packages = ("ottla", "pyspark_ottla", "pytest_ottla")
    assert {f"{name}/py.typed" for name in packages} <= files
    assert {path.relative_to(ROOT / "python").as_posix() for path in (ROOT / "python").rglob("*.pyi")} <= files
    of_metadata = {name.partition(".dist-info/")[2] for name in files if ".dist-info/" in name}
    assert {"licenses/LICENSE", "licenses/THIRD-PARTY-LICENSES.txt", "entry_points.txt"} <= of_metadata
    others = {name for name in files if not name.startswith((*(f"{each}/" for each in packages), "ottla-"))}
    assert others == {"../../../bin/ottla"}
    assert {Path(name).suffix for name in files - others} <= {
        "",
        ".json",
        ".py",
        ".pyc",
        ".pyi",
        ".so",
        ".txt",
        ".typed",
    }


METADATA_FILES = "import importlib.metadata as m; print(*m.files('ottla'), sep='\\n')"
METADATA = """
import importlib.metadata as m
told = m.metadata("ottla")
for name in ("Name", "Version", "Summary", "License-Expression", "Requires-Python", "Author", "Keywords"):
    assert told[name], name
assert "Typing :: Typed" in told.get_all("Classifier")
assert told.get_payload().startswith("# Ottla")
bounded = [each for each in m.requires("ottla") if "extra ==" not in each]
assert len(bounded) == 5 and all("<" in each and ">=" in each for each in bounded), bounded
"""


def test_its_metadata_are_complete(environment: Path) -> None:
    run(environment, "python", "-c", METADATA)


def test_the_library_writes_and_reads(environment: Path) -> None:
    script = """
from ottla.log import Log
with Log.open("t-0", mode="a") as log:
    log.append(key=b"k", value=b"v")
with Log.open("t-0", mode="r") as log:
    print([(record.key, record.value) for record in log])
"""
    assert run(environment, "python", "-c", script).strip() == "[(b'k', b'v')]"


def test_no_module_needs_what_is_not_declared(environment: Path) -> None:
    """Without the extras, modules that need them say so by name; nothing else may be missing."""
    script = """
import importlib, pkgutil
import ottla, pyspark_ottla
for found in pkgutil.walk_packages(ottla.__path__, "ottla.", onerror=lambda name: None):
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as error:
        print(found.name, error.name.partition(".")[0])
"""
    missing = [line.split() for line in run(environment, "python", "-c", script).splitlines()]
    serving = {"h11", "prometheus_client"}
    extras = {"pyarrow", "pyspark", "matplotlib", "numpy", "cryptography"} | serving
    rooms = ("ottla.spark", "ottla.pipelines", "ottla.metrics", "ottla.broker.watching.", "ottla.config.ciphers")
    rooms += ("ottla.cli._dev_certificates", "ottla.reading")
    # Whoever imports the fixtures of pytest has it.
    missing = [row for row in missing if row != ["ottla.testing", "pytest"]]
    assert [(module, package) for module, package in missing if package not in extras] == []
    assert [module for module, _ in missing if not module.startswith(rooms)] == []


def test_a_broker_inside_a_program(environment: Path) -> None:
    script = """
import ottla
with ottla.Broker() as broker:
    broker.create_topic("t")
    print(broker.is_running)
with ottla.Cluster(2) as cluster:
    cluster.create_topic("t")
    print(cluster.in_sync("t"))
"""
    assert run(environment, "python", "-c", script).split("\n")[:2] == ["True", "[1, 2]"]


def test_a_broker_and_its_clients_run(environment: Path) -> None:
    with serving(environment, "data") as address:
        to = ("--bootstrap-server", address)
        (environment / "lines").write_text("one\ntwo\n")
        assert "created" in run(environment, "ottla", "topic", "create", "lines", *to)
        run(environment, "ottla", "produce", "lines", "lines", *to)
        read = run(environment, "ottla", "consume", "lines", "--from-beginning", "--until-end", *to)
        assert read.splitlines() == ["one", "two"]


FIRST_RECORD = """
import sys, confluent_kafka
server = {"bootstrap.servers": sys.argv[1]}
producer = confluent_kafka.Producer(server)
producer.produce("first", b"value", b"key")
assert producer.flush(60) == 0
consumer = confluent_kafka.Consumer({**server, "group.id": "readers", "auto.offset.reset": "earliest"})
consumer.subscribe(["first"])
record = consumer.poll(60)
print(record.key(), record.value(), record.offset())
consumer.close()
"""


@pytest.mark.clients
def test_the_first_record_through_confluent_kafka(environment: Path) -> None:
    """Beside the wheel's environment and not in it: the other tests see what the wheel brings."""
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin/python", "install", "--quiet"]
    subprocess.run([*pip, "--target", environment / "client", "--only-binary", ":all:", "confluent-kafka"], check=True)
    began = time.monotonic()
    with serving(environment, "first") as address:
        client = {"PYTHONPATH": str(environment / "client")}
        assert run(environment, "python", "-c", FIRST_RECORD, address, **client) == "b'key' b'value' 0\n"
        print(f"from `ottla serve` to the first record: {time.monotonic() - began:.1f} s")


def test_the_help_of_all_commands_needs_no_extra(environment: Path) -> None:
    script = """
import click
from click.testing import CliRunner
from ottla.cli.main import ottla

def show(names, command):
    done = CliRunner().invoke(ottla, [*names, "--help"])
    assert done.exit_code == 0 and done.output.startswith("Usage: "), (names, done.output, done.exception)
    print(*names)
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            show([*names, name], command.get_command(click.Context(command), name))

show([], ottla)
"""
    shown = run(environment, "python", "-c", script).splitlines()
    assert {"serve", "topic create", "pipeline run", "mirror"} <= set(shown)


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("metrics", "serve --data-dir lacking --listen 127.0.0.1:0 --metrics-port 0"),
        ("security", "serve --data-dir lacking --listen 127.0.0.1:0 --dev-security"),
        ("pipelines", "pipeline list"),
        ("pipelines", "pipeline example audit"),
    ],
)
def test_a_command_that_lacks_an_extra_says_how_to_install_it(environment: Path, extra: str, arguments: str) -> None:
    done = attempt(environment, "ottla", *arguments.split())
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"pip install 'ottla[{extra}]'")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("extra", "program"),
    [
        ("arrow", "from ottla import records; records.arrow_schema()"),
        ("arrow", "import ottla; ottla.scan('t', path='.')"),
        ("spark", "from ottla.spark import session; session()"),
    ],
)
def test_a_module_that_lacks_an_extra_says_how_to_install_it(environment: Path, extra: str, program: str) -> None:
    said = attempt(environment, "python", "-c", program).stderr
    assert said.splitlines()[-1].endswith(f"pip install 'ottla[{extra}]'")
