"""`ottla scrape`: who does not answer, and what that makes of the exit code."""

import signal
import subprocess
import sys

from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.waiting import PATIENCE_S

from .conftest import Ottla


def test_who_has_no_metrics_is_told(ottla: Ottla, brokers: Brokers) -> None:
    port = free_port()
    broker = brokers(arguments=("--metrics-port", str(port)))
    at = ("-n", "1", "-b", broker.bootstrap)
    nobody = f"http://127.0.0.1:{free_port()}/metrics"
    error = ottla("scrape", "metrics", nobody, *at, code=1).err
    assert f"{nobody} does not answer: [Errno 111] Connection refused" in error
    assert "produced 0 records to metrics: no address gave metrics" in error
    url = f"http://127.0.0.1:{port}"
    error = ottla("scrape", "metrics", f"{url}/nothing", *at, code=1).err
    assert f"{url}/nothing has no metrics: it answers 404" in error
    some = ottla("scrape", "metrics", nobody, f"{url}/metrics", *at).err
    assert "produced 1 record to metrics" in some


def test_ctrl_c_says_how_many(brokers: Brokers) -> None:
    port = free_port()
    broker = brokers(arguments=("--metrics-port", str(port)))
    command = [sys.executable, "-m", "ottla", "scrape", "metrics", f"http://127.0.0.1:{port}/metrics", "-e", "0.1"]
    wait = [sys.executable, "-m", "ottla", "consume", "metrics", "--from-beginning", "-n", "2", "-b", broker.bootstrap]
    subprocess.run([*command, "-n", "1", "-b", broker.bootstrap], check=True)
    with subprocess.Popen([*command, "-b", broker.bootstrap], stderr=subprocess.PIPE, text=True) as process:
        try:
            subprocess.run(wait, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 130
    assert err.startswith("produced ")
    assert err.endswith(" to metrics\n")
    assert len(err.splitlines()) == 1
