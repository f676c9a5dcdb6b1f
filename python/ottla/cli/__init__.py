"""The command `ottla`: one file per command, each with a click command named `command`; `main.py` finds them by their
names.

Files import nothing but click at the top: `ottla --help` reads them all, and `ottla serve` starts within a budget.
Files whose name begins with an underline are shared by several commands.
"""

import os
import signal
import sys

# Until `main` is called, Ctrl-C ends the command as it ends programs that know nothing of it. Python's
# KeyboardInterrupt would be a traceback out of the middle of some import. Programs that import this package are left
# alone.
if (
    os.path.basename(sys.argv[0] if sys.argv else "") == "ottla"
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
