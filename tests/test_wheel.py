"""The wheel, as a user without Rust gets it: in an empty environment, with no compiler in reach."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[1]


STAMP = ROOT / ".stamps" / "build"


@pytest.fixture(scope="module", params=["as it was built", pytest.param("release", marks=pytest.mark.judge)])
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


def run(environment: Path, *arguments: str) -> str:
    without_rust = {**os.environ, "PATH": f"{environment / 'bin'}:/usr/bin:/bin", "HOME": str(environment)}
    command = [environment / "bin" / arguments[0], *arguments[1:]]
    done = subprocess.run(
        command, env=without_rust, cwd=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_runs(environment: Path) -> None:
    assert "serve" in run(environment, "ottla", "--help")


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
    rooms += ("ottla.cli._dev_certificates",)
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
    serve = [environment / "bin/ottla", "serve", "--data-dir", environment / "data", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            address = broker.stdout.readline().split()[-1]
            to = ("--bootstrap-server", address)
            (environment / "lines").write_text("one\ntwo\n")
            assert "created" in run(environment, "ottla", "topic", "create", "lines", *to)
            run(environment, "ottla", "produce", "lines", "lines", *to)
            read = run(environment, "ottla", "consume", "lines", "--from-beginning", "--until-end", *to)
            assert read.splitlines() == ["one", "two"]
        finally:
            broker.terminate()
        assert broker.wait(PATIENCE_S) == 0
