"""
A document as numbered lines, the unit that everything above cites.

Only LF, CR LF and CR end a line, as in every editor: a form feed or U+2028 stays
inside its line, so that numbers never shift. What no index can store is replaced here
and nowhere else, and so are embedded payloads, which are no text.
"""

import re
from dataclasses import dataclass
from itertools import accumulate

ELIDED_FROM_CHARS = 200

# Bounded repetitions: the pattern stays linear on a line made of nothing but starts.
_PAYLOAD = re.compile(
    r"(data:(?:[a-z]+/[\w.+-]{1,80})?(?:;[\w.+-]{1,40}(?:=[\w.+-]{1,40})?){0,4},)"
    rf"([^\s\"<>)]{{{ELIDED_FROM_CHARS},}})",
    re.IGNORECASE,
)
_OTHER_LINE_END = re.compile(r"\r\n?")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_VISIBLE = re.compile(r"[^\s\u200b-\u200f\u2060\ufeff]")


def elide_payloads(line: str) -> str:
    """
    Replace each long ``data:`` payload by a marker that says how much was left out.

    The media type and the alt text around it stay. The marker has no blanks or
    brackets, so the link it stands in remains a link.
    """
    return _PAYLOAD.sub(
        lambda found: f"{found[1]}…{len(found[2])}-characters-left-out…", line
    )


# What ``elide_payloads`` leaves of an address.
_ELIDED = re.compile(r"\(?data:[^\s\"'<>()]*?…\d+-characters-left-out…\)?")


def without_payloads(text: str) -> str:
    """Return ``text`` without what is left of payloads: it says nothing of meaning."""
    return _ELIDED.sub("", text)


def is_visible(text: str) -> bool:
    """Tell whether ``text`` has anything to show."""
    return _VISIBLE.search(text) is not None


@dataclass(frozen=True, slots=True)
class Lines:
    """
    The lines of a document, 1-based and inclusive wherever a span is named.

    A line is blank if it shows nothing, be it made of spaces, form feeds or zero-width
    marks. ``offsets`` are the character offsets of the lines, one more than there are
    lines; ``solid`` holds for each line the nearest one at or before it that is not
    blank, with 0 in front.
    """

    lines: tuple[str, ...]
    offsets: tuple[int, ...]
    solid: tuple[int, ...]

    @classmethod
    def from_text(cls, text: str) -> "Lines":
        """Number the lines of ``text``, with line ends and payloads normalised."""
        text = _OTHER_LINE_END.sub("\n", text.removeprefix("\ufeff"))
        text = elide_payloads(_UNSTORABLE.sub("\ufffd", text))
        lines = tuple(text.split("\n"))
        offsets = accumulate((len(line) + 1 for line in lines), initial=0)
        marks = (n if is_visible(line) else 0 for n, line in enumerate(lines, 1))
        return cls(lines, tuple(offsets), tuple(accumulate(marks, max, initial=0)))

    @property
    def count(self) -> int:
        """How many lines an editor shows: a final line end opens no new one."""
        return len(self.lines) - (self.lines[-1] == "")

    def line(self, number: int) -> str:
        """Return one line."""
        return self.lines[number - 1]

    def text(self, first: int, last: int) -> str:
        """Return the lines ``first``..``last``, joined."""
        return "\n".join(self.lines[first - 1 : last])

    def size(self, first: int, last: int) -> int:
        """Return the length of ``text(first, last)``, in constant time."""
        return self.offsets[last] - self.offsets[first - 1] - 1

    def distance(self, first: int, second: int) -> int:
        """Return the characters from the start of one line to that of another."""
        return self.offsets[second - 1] - self.offsets[first - 1]

    def last_solid(self, first: int, last: int) -> int:
        """Return the last line of the span that is not blank, or ``first``."""
        return max(first, self.solid[last])

    def next_solid(self, line: int) -> int:
        """Return the first line from ``line`` on that is not blank, or the last."""
        while line < len(self.lines) and self.is_blank(line):
            line += 1
        return line

    def is_blank(self, number: int) -> bool:
        """Tell whether a line shows nothing."""
        return self.solid[number] != number
