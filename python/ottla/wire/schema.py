"""How a message is declared: classes whose fields carry what every version of the protocol does with them.

    class Topic(Message):
        name: str = ""
        topic_id: Annotated[Uuid, V("10+", ignorable=True)] = ZERO_UUID
        partitions: list[Partition] = []

A field is there in all versions unless `V` says otherwise; it has a default, which stands where a version lacks it.
Fields are in wire order, and named as in Apache Kafka's own definitions (there in CamelCase). `str`, `bytes` and `bool`
are themselves; numbers say their width. A structure or an array's item is another `Message`.

The words above a field say what it means, in which unit, and which values are special; the versions stand in its `V`.
Facts are those of Apache Kafka 2.7, unless they say otherwise; "here" is this broker. These mean the same everywhere:

error_code: 0 is no error; `ottla.errors` has the others. A row has its own, and an error at the top is about the whole
    request.
error_message: Words for people beside an error code; null without an error, or where the code says it all.
throttle_time_ms: For how long the client is muted because of a quota, 0 if not. The broker answers at once, and then
    reads no more from the connection for so long (KIP-219). Before Kafka 2.0 it held the answer back instead. That is
    why clients wait by themselves only in answers from some version on: Fetch 8, Produce and Metadata 6, OffsetCommit
    and OffsetFetch 4, CreateTopics, JoinGroup and ListOffsets 3, most others 0, 1 or 2.
responses, results: A row for each thing that was asked about, unless words say otherwise.

Nothing is compiled until a message is first encoded or decoded: importing a file of declarations costs only its
classes. Then the classes become a native schema (rust/wire/schema.rs), which Rust walks.
"""

from __future__ import annotations

import types
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from ottla import _core
from ottla.wire.needs import parse_needs

if TYPE_CHECKING:
    from typing_extensions import Buffer

Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]
Float64 = Annotated[float, "float64"]
Records = Annotated[bytes | memoryview, "records"]
"""Record batches; on the wire the same as bytes, but decoded as a view of the buffer, which it keeps alive."""
Uuid = Annotated[bytes, "uuid"]
"""16 bytes."""

_PLAIN: dict[object, str] = {bool: "bool", str: "string", bytes: "bytes", float: "float64"}
_NO_LAST = 32767
Range = tuple[int, int]
_NEVER: Range = (1, 0)


OWN_TAGS = 10_000
"""The first tag of fields that Ottla adds to Kafka's messages: far from those that Kafka gives, which count from 0."""


class Message(msgspec.Struct, gc=False):
    """A structure of the protocol. Messages are trees: nothing in them needs the cycle collector."""


class V(NamedTuple):
    """In which versions a field exists, and how: "3+", "0-2" or "1"."""

    versions: str = "0+"
    nullable: str = ""
    """The versions in which None may be sent."""
    tag: int | None = None
    """The field is a tagged one (KIP-482)."""
    tagged: str = ""
    """The versions in which it is tagged, if not in all."""
    ignorable: bool = False
    """True if a version that lacks the field drops its value; otherwise a value other than the default is an error."""


def parse_versions(text: str) -> Range:
    """First and last version, inclusive; ("3+" has no last one), (1, 0) for none."""
    if not text:
        return _NEVER
    first, dash, last = text.partition("-")
    if first.endswith("+"):
        return int(first[:-1]), _NO_LAST
    return int(first), int(last) if dash else int(first)


class FieldSpec(NamedTuple):
    """One field as the native schema takes it."""

    name: str
    type: Any
    versions: Range
    nullable: Range
    tag: int | None
    tagged: Range
    ignorable: bool
    default: object


class StructSpec(NamedTuple):
    """One structure as the native schema takes it."""

    name: str
    cls: type[Message]
    fields: list[FieldSpec]


def describe(cls: type[Message]) -> StructSpec:
    """The specification of a message class by the fields that it declares, with all structures inside it."""
    hints = get_type_hints(cls, include_extras=True)
    fields = [_field(hints[field.name], field) for field in msgspec.structs.fields(cls)]
    _holding[cls] = tuple(field.name for field in fields if isinstance(field.type, tuple))
    return StructSpec(cls.__name__, cls, fields)


#: Of the classes that have been described.
_holding: dict[type[Message], tuple[str, ...]] = {}


def holding(cls: type[Message]) -> tuple[str, ...]:
    """The fields that may have arrays or structures, which are few: most fields are numbers and texts. All fields of a
    class that was never encoded or decoded.
    """
    return _holding.get(cls, cls.__struct_fields__)


def _field(hint: Any, field: msgspec.structs.FieldInfo) -> FieldSpec:
    spec = V()
    if get_origin(hint) is Annotated:
        for extra in hint.__metadata__:
            if isinstance(extra, V):
                spec = extra
    if field.default is not msgspec.NODEFAULT:
        default = field.default
    elif field.default_factory is not msgspec.NODEFAULT:
        default = [] if field.default_factory is list else field.default_factory
    else:
        raise TypeError(f"{field.name} needs a default")
    tagged = parse_versions(spec.tagged or spec.versions) if spec.tag is not None else _NEVER
    return FieldSpec(
        field.name,
        _type(hint),
        parse_versions(spec.versions),
        parse_versions(spec.nullable),
        spec.tag,
        tagged,
        spec.ignorable,
        default,
    )


def _type(hint: Any) -> Any:
    origin = get_origin(hint)
    if origin is Annotated:
        for extra in hint.__metadata__:
            if isinstance(extra, str):
                return extra
        return _type(hint.__origin__)
    if origin is Union or origin is types.UnionType:
        (inner,) = (arg for arg in get_args(hint) if arg is not type(None))
        return _type(inner)
    if origin is list:
        return ("array", _type(get_args(hint)[0]))
    if hint in _PLAIN:
        return _PLAIN[hint]
    return describe(hint)


#: The most array items of one message: a cluster's 200,000 partitions with three replicas each take 1.4 million.
ITEMS_MAX = 4_000_000
#: The same of a client's request, unless its API says otherwise: each of these partitions once, in a topic of its own.
REQUEST_ITEMS_MAX = 400_000
#: The same where each partition comes with its replicas.
ASSIGNMENT_ITEMS_MAX = 1_500_000
#: The same of what administrators say of members, users, tokens and the like: there are fewer of them than partitions.
FEW_ITEMS_MAX = 10_000
#: Array items that are decoded or encoded in one go where the loop is shared: about a millisecond.
ITEMS_AT_ONCE = 2_000

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class Api(Generic[Request, Response]):
    """One API: its key, its versions, and its messages to bytes and back (bodies only; `headers` has what is around).

    Encoding raises LocalProtocolError for what a version cannot say, decoding RemoteProtocolError for bytes that are no
    message, both with the field's name; either raises LocalProtocolError for a version that is not in `versions`.
    A request has at most `items_max` items in its arrays, all together: what has more is no message.

    flexible: The first version in the flexible encoding (KIP-482), whether it is declared here or newer.
    has_small_answers: Answers are small, whatever is asked for. Where memory for answers is short, others wait.
    is_between_brokers: Nobody but a broker sends it.
    has_quotas: Whether the time that it takes counts for a quota on listeners where brokers are, too.
    needs: What a client has to be allowed (`ottla.wire.needs`).
    """

    def __init__(
        self,
        key: int,
        name: str,
        versions: str,
        *,
        flexible: int | None = None,
        request: type[Request],
        response: type[Response],
        items_max: int = REQUEST_ITEMS_MAX,
        has_small_answers: bool = False,
        is_between_brokers: bool = False,
        has_quotas: bool = True,
        needs: str = "",
    ) -> None:
        self.key = key
        self.name = name
        first, last = parse_versions(versions)
        self.versions = range(first, last + 1)
        self.flexible_from = _NO_LAST if flexible is None else flexible
        self.items_max = items_max
        self.request = request
        self.response = response
        self.has_small_answers = has_small_answers
        self.is_between_brokers = is_between_brokers
        self.has_quotas = has_quotas
        self.needs = parse_needs(needs)

    @property
    def lowest(self) -> int:
        return self.versions[0]

    @property
    def highest(self) -> int:
        return self.versions[-1]

    def is_flexible(self, version: int) -> bool:
        """True if the messages of this version are in the flexible encoding."""
        return version >= self.flexible_from

    def __repr__(self) -> str:
        return f"<Api {self.key} {self.name} {self.lowest}-{self.highest}>"

    @cached_property
    def _request(self) -> _core.Schema:
        return self._compile(self.request, self.items_max)

    @cached_property
    def _response(self) -> _core.Schema:
        return self._compile(self.response, ITEMS_MAX)

    def _compile(self, cls: type[Message], items_max: int) -> _core.Schema:
        return _core.Schema(describe(cls), (self.lowest, self.highest), self.flexible_from, items_max)

    def encode_request(self, version: int, message: Request) -> bytes:
        """The request's body."""
        return self._request.encode(version, message)

    def encoding_request(self, version: int, message: Request) -> _core.Encoding:
        """The request's body in pieces."""
        return self._request.encoding(version, message, ITEMS_AT_ONCE)

    def decode_request(self, version: int, buffer: Buffer, start: int = 0) -> Request:
        """The request whose body starts at byte `start`."""
        message: Request = self._request.decode(version, buffer, start)
        return message

    def decoding_request(self, version: int, buffer: Buffer) -> _core.Decoding:
        """The request in pieces: all of it is checked now, its rows come with `go_on`."""
        return self._request.decoding(version, buffer, ITEMS_AT_ONCE)

    def encode_response(self, version: int, message: Response) -> bytes:
        """The response's body."""
        return self._response.encode(version, message)

    def encoding_response(self, version: int, message: Response) -> _core.Encoding:
        """The response's body in pieces."""
        return self._response.encoding(version, message, ITEMS_AT_ONCE)

    def decode_response(self, version: int, buffer: Buffer, start: int = 0) -> Response:
        """The response whose body starts at byte `start`."""
        message: Response = self._response.decode(version, buffer, start)
        return message
