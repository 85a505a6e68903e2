"""The syntax of `server.properties`, that of java.util.Properties, and `name=value` from a command line.

Decides how a text becomes names and values, and how they are written down. Must not know which names are settings, nor
read a file itself.

    line         natural lines end with LF, CR or CR LF; an odd number of backslashes at the end joins the next one,
                 whose leading blanks go; a line whose first sign is # or ! is a comment and never joins
    name         up to the first =, : or blank that no backslash stands before
    separator    blanks, at most one = or :, blanks
    value        the rest, trailing blanks included
    escapes      \\t \\n \\r \\f, \\uXXXX (UTF-16), else the sign itself

A later entry for the same name wins. Source: the documentation of java.util.Properties.load; tried against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kavka.errors import ConfigError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {sign: letter for letter, sign in _ESCAPES.items()}


def parse_properties(text: str) -> dict[str, str]:
    """Names and values of `text`, in its order. Raises ConfigError for a malformed \\uXXXX, with the line's number."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        end, value = _split(line)
        try:
            properties[_unescape(line[:end])] = _unescape(line[value:])
        except ValueError as error:
            raise ConfigError(f"line {number}: {error}") from None
    return properties


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Names and values of `name=value` texts, as `--set` takes them. Raises ConfigError where there is no name or =."""
    properties: dict[str, str] = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"{assignment!r} is not name=value")
        properties[name.strip()] = value.strip()
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """The text that `parse_properties` reads as these names and values, in their order."""
    return "".join(f"{_escape(name, in_name=True)}={_escape(value)}\n" for name, value in properties.items())


def _escape(text: str, *, in_name: bool = False) -> str:
    escaped = []
    for position, sign in enumerate(text):
        if sign in _ESCAPED:
            escaped.append(f"\\{_ESCAPED[sign]}")
        elif sign == "\\" or (sign == " " and (in_name or not position)) or (in_name and sign in "=:#!"):
            escaped.append(f"\\{sign}")
        else:
            escaped.append(sign)
    return "".join(escaped)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, blank lines and leading blanks, with continuations joined; each with its first number."""
    lines = enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1)
    for number, natural in lines:
        line = natural.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1]
            if not line:  # a lone backslash joins nothing: what follows is a line of its own, maybe a comment
                break
            _, following = next(lines, (0, ""))
            line += following.lstrip(_BLANKS)
        if line:
            yield number, line


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[int, int]:
    """Where the name of a logical line ends and where its value begins."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    value = end
    while value < len(line) and line[value] in _BLANKS:
        value += 1
    if value < len(line) and line[value] in "=:":
        value += 1
        while value < len(line) and line[value] in _BLANKS:
            value += 1
    return end, value


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    signs: list[str] = []
    position = 0
    while position < len(text):
        sign = text[position]
        position += 1
        if sign != "\\":
            signs.append(sign)
        elif position < len(text):
            escape = text[position]
            position += 1
            if escape == "u":
                digits = text[position : position + 4]
                if len(digits) < 4 or not all(d in "0123456789abcdefABCDEF" for d in digits):
                    raise ValueError(f"\\u{digits} is not \\u and four hexadecimal digits")
                signs.append(chr(int(digits, 16)))
                position += 4
            else:
                signs.append(_ESCAPES.get(escape, escape))
    # Two \uXXXX escapes may be the halves of one character.
    return "".join(signs).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
