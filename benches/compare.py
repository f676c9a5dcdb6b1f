"""This broker beside Apache Kafka: `python benches/compare.py --against 3.9.2,4.3.1 [--only NAME ...] [--rounds 3]`.

See docs/benchmarks/method.md. `--list` shows the scenarios, `--quick` runs them with tiny sizes to see that they
work: figures of such a run mean nothing and are not written to docs/benchmarks/.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benches.suite.command import main  # noqa: E402

if __name__ == "__main__":
    main()
