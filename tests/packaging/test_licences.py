"""The licences of the crates in the wheel are those of the crates that cargo compiles."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LICENCES = (ROOT / "THIRD-PARTY-LICENSES.txt").read_text()
#: Those that a wheel under Apache-2.0 may contain.
WELCOME = {"Apache-2.0", "BSD-3-Clause", "ISC", "LLVM-exception", "MIT", "Zlib"}


def test_the_file_is_what_the_crates_say() -> None:
    write = [sys.executable, ROOT / "packaging" / "licences.py"]
    assert subprocess.run(write, check=True, capture_output=True, text=True).stdout == LICENCES, "run `make licences`"


def test_each_licence_is_welcome() -> None:
    listed = re.findall(r"^[\w-]+ \d\S*: (.+)$", LICENCES, re.MULTILINE)
    assert len(listed) > 30
    assert {word for row in listed for word in re.split(r" (?:OR|AND|WITH) ", row)} <= WELCOME
