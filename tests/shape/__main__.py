"""Writes down what has shrunk since, and says what has grown: `python -m tests.shape`."""

import sys

from tests.shape import allowed


def main() -> int:
    found, before = allowed.counted(allowed.files()), allowed.read()
    after = allowed.lowered(found, before)
    allowed.LIST.write_text(allowed.written(after))
    for rule in allowed.RULES:
        old, new = (sum(each.get(rule, {}).values()) for each in (before, after))
        print(f"{rule}: {old} -> {new}, in {len(after[rule])} files")
    left = allowed.problems(found, after)
    print("\n".join(left))
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
