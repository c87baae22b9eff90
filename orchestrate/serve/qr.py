"""Draws a text as a QR code for a terminal (ISO/IEC 18004: bytes, level L, versions 1 to 6)."""

from __future__ import annotations

from collections.abc import Iterator

# By version, from 1: codewords of data, of correction for each block, blocks, centre of the last
# alignment pattern.
_VERSIONS = ((19, 7, 1, 0), (34, 10, 1, 18), (55, 15, 1, 22), (80, 20, 1, 26), (108, 26, 1, 30),
             (136, 18, 2, 34))  # fmt: skip
_QUIET = 2
_FORMAT = 0b01 << 3  # level L, mask 0

Matrix = list[list[bool]]


def matrix_of(text: str) -> Matrix:
    """The modules, dark ones True; `ValueError` if the text is too long."""
    data = text.encode()
    for version, (room, correction, blocks, centre) in enumerate(_VERSIONS, 1):
        if len(data) <= room - 2:
            codewords = _interleaved(_codewords(data, room), correction, blocks)
            return _placed(codewords, 17 + 4 * version, centre)
    raise ValueError("the text is too long")


def drawing_of(text: str) -> str:
    """Two modules in a character; light ones are drawn, for a dark terminal."""
    modules = matrix_of(text)
    size = len(modules) + 2 * _QUIET

    def is_light(row: int, column: int) -> bool:
        inside = 0 <= row < len(modules) and 0 <= column < len(modules)
        return not (inside and modules[row][column])

    lines = []
    for row in range(-_QUIET, size - _QUIET, 2):
        pairs = ((is_light(row, at), is_light(row + 1, at)) for at in range(-_QUIET, size - _QUIET))
        lines.append("".join({(True, True): "█", (True, False): "▀", (False, True): "▄"}.get(
            pair, " ") for pair in pairs))  # fmt: skip
    return "\n".join(lines) + "\n"


def _codewords(data: bytes, room: int) -> list[int]:
    bits = "0100" + f"{len(data):08b}" + "".join(f"{byte:08b}" for byte in data)
    bits += "0" * min(4, room * 8 - len(bits))
    bits += "0" * (-len(bits) % 8)
    found = [int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)]
    return found + [(0xEC, 0x11)[at % 2] for at in range(room - len(found))]


def _times(a: int, b: int) -> int:
    """The product in GF(256)."""
    product = 0
    for at in range(7, -1, -1):
        product = (product << 1) ^ ((product >> 7) * 0x11D)
        product ^= ((b >> at) & 1) * a
    return product


def _correction(data: list[int], count: int) -> list[int]:
    divisor = [0] * (count - 1) + [1]
    root = 1
    for _ in range(count):
        for at in range(count):
            divisor[at] = _times(divisor[at], root)
            if at + 1 < count:
                divisor[at] ^= divisor[at + 1]
        root = _times(root, 2)
    rest = [0] * count
    for byte in data:
        factor = byte ^ rest.pop(0)
        rest.append(0)
        rest = [one ^ _times(part, factor) for one, part in zip(rest, divisor, strict=True)]
    return rest


def _interleaved(data: list[int], correction: int, blocks: int) -> list[int]:
    size = len(data) // blocks
    parts = [data[at * size : (at + 1) * size] for at in range(blocks)]
    checks = [_correction(part, correction) for part in parts]
    columns = [*zip(*parts, strict=True), *zip(*checks, strict=True)]
    return [word for column in columns for word in column]


def _placed(codewords: list[int], size: int, centre: int) -> Matrix:
    fixed: dict[tuple[int, int], bool] = {}
    for row, column in ((0, 0), (0, size - 7), (size - 7, 0)):
        _finder(fixed, row, column, size)
    for at in range(8, size - 8):
        fixed[6, at] = fixed[at, 6] = at % 2 == 0
    if centre:
        for down in range(-2, 3):
            for across in range(-2, 3):
                is_dark = max(abs(down), abs(across)) != 1
                fixed[centre + down, centre + across] = is_dark
    _format(fixed, size)
    bits = "".join(f"{word:08b}" for word in codewords)
    modules = [[fixed.get((row, column), False) for column in range(size)] for row in range(size)]
    for number, (row, column) in enumerate(_path(size, fixed)):
        is_dark = number < len(bits) and bits[number] == "1"
        modules[row][column] = is_dark != ((row + column) % 2 == 0)
    return modules


def _finder(fixed: dict[tuple[int, int], bool], top: int, left: int, size: int) -> None:
    for down in range(-1, 8):
        for across in range(-1, 8):
            row, column = top + down, left + across
            if 0 <= row < size and 0 <= column < size:
                ring = max(abs(down - 3), abs(across - 3))
                fixed[row, column] = ring in (0, 1, 3)


def _format(fixed: dict[tuple[int, int], bool], size: int) -> None:
    rest = _FORMAT
    for _ in range(10):
        rest = (rest << 1) ^ ((rest >> 9) * 0x537)
    bits = (_FORMAT << 10 | rest) ^ 0x5412
    around = [(8, at) for at in (0, 1, 2, 3, 4, 5, 7, 8)] + [
        (at, 8) for at in (7, 5, 4, 3, 2, 1, 0)
    ]
    apart = [(size - 1 - at, 8) for at in range(7)] + [(8, size - 8 + at) for at in range(8)]
    for number, (one, other) in enumerate(zip(around, apart, strict=True)):
        fixed[one] = fixed[other] = bool(bits >> (14 - number) & 1)
    fixed[size - 8, 8] = True


def _path(size: int, fixed: dict[tuple[int, int], bool]) -> Iterator[tuple[int, int]]:
    """Two columns at a time, from the right, up and down by turns, around what is fixed."""
    is_up = True
    for right in [*range(size - 1, 6, -2), 5, 3, 1]:
        rows = range(size - 1, -1, -1) if is_up else range(size)
        for row in rows:
            for column in (right, right - 1):
                if (row, column) not in fixed:
                    yield row, column
        is_up = not is_up
