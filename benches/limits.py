"""How close to the machine, and whether costs stay flat as things grow: `python benches/limits.py [OPTIONS]`.

The scenarios `limit-*` and `growth-*` of benches/compare.py, with its options, against this broker alone.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benches.suite.command import main  # noqa: E402
from benches.suite.scenarios.limits import SCENARIOS  # noqa: E402

if __name__ == "__main__":
    main(["--against", "none", "--only", ",".join(scenario.name for scenario in SCENARIOS), *sys.argv[1:]])
