"""The Rust side of Ottla, a part for each room of rust/py. Each is documented where Python wraps it.

At run time there are no parts: all is in `ottla._core`.
"""

# ruff: noqa: F403

from ottla._core._cleaner import *
from ottla._core._client import *
from ottla._core._coordinator import *
from ottla._core._direct import *
from ottla._core._disk import *
from ottla._core._fetch import *
from ottla._core._log import *
from ottla._core._net import *
from ottla._core._one_at_a_time import *
from ottla._core._produce import *
from ottla._core._records import *
from ottla._core._replication import *
from ottla._core._traffic import *
from ottla._core._wire import *

__version__: str
DEBUG_BUILD: bool
BUILD_PROFILE: str
