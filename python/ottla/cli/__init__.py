"""The command `ottla`: one file per command, each with a click command named `command`; `main.py` finds them by their
names.

Files import nothing but click at the top: `ottla --help` reads them all, and `ottla serve` starts within a budget.
Files whose name begins with an underline are shared by several commands.
"""
