"""The numbers straight from the file, in plain Python and without the job's regular expression: what the job must
agree with.
"""

from collections import Counter
from collections.abc import Iterable

from ottla.pipelines.demo.summary import Hour, Page, Summary


def count(lines: Iterable[str], repeat: int = 1, pages_max: int = 10) -> Summary:
    """Counts the lines, each as often as it is produced.

    A line is malformed if it does not split into address, [time], "request" and status.
    """
    requests: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    pages: Counter[str] = Counter()
    malformed = 0
    for line in lines:
        try:
            before, request, after = line.split('"', 2)
            opening, closing = before.index("["), before.index("]")
            hour = before[opening + 1 : closing][:14]
            path = request.split(" ")[1]
            status = int(after.split()[0])
            if not path or len(hour) < 14 or not 100 <= status <= 999:
                raise ValueError(line)
        except (ValueError, IndexError):
            malformed += 1
            continue
        requests[hour] += 1
        errors[hour] += status >= 400
        pages[path.partition("?")[0]] += 1
    most = sorted(pages.items(), key=lambda page: (-page[1], page[0]))[:pages_max]
    return Summary(
        hours=tuple(
            sorted(Hour.parse(text, number * repeat, errors[text] * repeat) for text, number in requests.items())
        ),
        pages=tuple(Page(path, number * repeat) for path, number in most),
        malformed=malformed * repeat,
    )
