"""Java's hashes and orders, by which old clients agree without asking each other: which partition a key has, whose
turn it is in a round, and which of two names comes first.
"""

INT_MIN = -(1 << 31)


def hash_code(value: object) -> int:
    """`hashCode()` of a Java String (str), `Arrays.hashCode` of a byte[] (bytes), or that of an Integer or Long (int).

    Raises:
        TypeError: Java's clients have no such key.
    """
    match value:
        case str():
            units = value.encode("utf-16-be", "surrogatepass")
            code = 0
            for at in range(0, len(units), 2):
                code = (31 * code + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
        case bytes() | bytearray() | memoryview():
            code = 1
            for byte in bytes(value):
                code = (31 * code + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
        case bool():
            code = 1231 if value else 1237
        case int() if INT_MIN <= value < 1 << 31:
            code = value & 0xFFFFFFFF
        case int() if -(1 << 63) <= value < 1 << 63:
            code = (value ^ value >> 32) & 0xFFFFFFFF
        case _:
            raise TypeError(f"a key is str, bytes or an int of 64 bits, not {type(value).__name__}")
    return code - (1 << 32) if code & 0x80000000 else code


def absolute(number: int) -> int:
    """`kafka.utils.Utils.abs`: the least int, which has no positive, is 0."""
    return 0 if number == INT_MIN else abs(number)


def string_order(text: str) -> bytes:
    """A key for sorting as `String.compareTo` does, by UTF-16 units: not Python's order beyond U+FFFF."""
    return text.encode("utf-16-be", "surrogatepass")
