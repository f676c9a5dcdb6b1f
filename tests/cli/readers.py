"""`ottla consume` in processes of their own."""

import subprocess
import sys
import threading

from tests.support.waiting import PATIENCE_S


class Reader:
    """The command in a process of its own; `lines` grows while it runs."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "ottla", "consume", *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(line.rstrip("\n") for line in iter(self.process.stdout.readline, ""))

    def interrupt(self) -> None:
        self.process.send_signal(2)
        assert self.process.wait(PATIENCE_S) == 130
        self.end()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
