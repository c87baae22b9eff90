"""Text from files made safe to show: what a terminal would act on becomes a visible stand-in."""

from __future__ import annotations

from orchestrate.regex import regex

# Harmless marks inside words of Persian, Hindi and emoji sequences; they take no column.
_JOINERS = frozenset("\u200c\u200d\u00ad")
_ASCII_CONTROLS = regex(r"[\x00-\x1f\x7f]")
# Control Pictures: ␀ … ␟ show what a control character is without being one.
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}


def visible(text: str) -> str:
    """The text on one line, without control, escape or direction-changing characters."""
    if text.isascii():
        return text.translate(_PICTURES) if _ASCII_CONTROLS.search(text) else text
    return text.translate(_STAND_INS)


def visible_lines(text: str) -> str:
    """The same for a text of several lines, which stay lines; tabs stay tabs."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in lines)


def visible_character(character: str) -> str:
    """The character, or what stands for it when showing it could mislead."""
    code = ord(character)
    if code < 0x7F:
        return character if code >= 0x20 else _PICTURES[code]
    if code == 0x7F:
        return _PICTURES[code]
    if character in _JOINERS:
        return character
    from unicodedata import category

    # Cc: C1 controls, Cf: bidi and other invisible ones, Cs: lone surrogates, Cn: no character.
    if category(character) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp"):
        return f"<U+{code:04X}>"
    return character


class _StandIns(dict[int, str]):
    """What is shown for each character, found out once: answers can have millions of them."""

    def __missing__(self, code: int) -> str:
        shown = self[code] = visible_character(chr(code))
        return shown


_STAND_INS = _StandIns()


def width_of(text: str) -> int:
    """How many terminal columns visible text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if character.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if character in _JOINERS or category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in ("W", "F") else 1


def clip(text: str, columns: int) -> str:
    """Visible text cut to so many columns, with … where something is missing."""
    if width_of(text) <= columns:
        return text
    kept, used = [], 1
    for character in text:
        used += _columns(character)
        if used > columns:
            break
        kept.append(character)
    return "".join(kept) + "…"


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def show_size(size: int) -> str:
    if size < 1024:
        return plural(size, "byte")
    if size < 1024 * 1024:
        return f"{round(size / 1024)} KiB"
    unit, name = (1024**2, "MiB") if size < 1024**3 else (1024**3, "GiB")
    return f"{size / unit:.1f} {name}"
