"""The Rust side of Ottla. Sections follow the rooms of rust/; each is documented where Python wraps it."""

from typing import Any, Self, final

from typing_extensions import Buffer

__version__: str
DEBUG_BUILD: bool

# --- records ---

# --- log ---

# --- wire ---

@final
class Schema:
    def __new__(cls, declaration: tuple[object, ...], versions: tuple[int, int], flexible_from: int) -> Self: ...
    def encode(self, version: int, message: object) -> bytes: ...
    def decode(self, version: int, buffer: Buffer, start: int = 0) -> Any: ...

def request_frame(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: Buffer
) -> bytes: ...
def parse_response_header(api_key: int, api_version: int, frame: Buffer) -> tuple[int, int]: ...
def request_header_version(api_key: int, api_version: int) -> int: ...
def response_header_version(api_key: int, api_version: int) -> int: ...

# --- net ---

# --- client ---

def murmur2(data: Buffer) -> int: ...
