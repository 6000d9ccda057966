"""
The lines of a markdown document as a tree of blocks.

markdown-it decides what is a heading, a fence, a list or a comment; this module only
turns its tokens into line spans. The children of a block tile its non-blank lines, so
whoever walks the tree meets every line of prose exactly once.

Only block structure is parsed: inline parsing, the slow half, is done for headings
alone. Some of markdown-it's habits are replaced. Beyond its nesting limit it skips to
the end of the document; here a list, quote or footnote at that depth is plain text and
its surroundings stand. A table is one token, not one for each cell. And the search for
the end of a quote, which takes quadratic time on hostile input, is bounded.
"""

import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote, list_block, table
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.footnote.index import footnote_def

from docs_rag.lines import Lines

# A list level counts two, one for the list and one for the item.
MAX_NESTING = 32
QUOTE_WINDOW_LINES = 16
# A longer opening line of a fence is not repeated in full where the fence is split.
MAX_FENCE_LEAD_CHARS = 120
# Longer HTML is taken to say something without looking closer.
MAX_MARKUP_CHARS = 2000

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ANCHOR = re.compile(r"<(a|span|div)\b[^<>]*\b(?:id|name)=[^<>]*(?:/>|>\s*</\1>)")
_CONTAINER_MARK = re.compile(r"[^>\s]")


class BlockKind(enum.StrEnum):
    """What a block is; markdown-it decides."""

    DOCUMENT = "document"
    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    ITEM = "item"
    QUOTE = "quote"
    FOOTNOTE = "footnote"
    TABLE = "table"
    FENCE = "fence"
    CODE = "code"
    HTML = "html"
    ANCHOR = "anchor"
    RULE = "rule"
    DEFINITION = "definition"


@dataclass(frozen=True, slots=True)
class Block:
    """
    A block and its lines.

    ``lead`` and ``tail`` are what a piece of the block needs before and after it when
    the block is split. ``head_last`` is the last line of what ``lead`` repeats, a
    fence's opening or a table's delimiter row; ``foot`` is the line that closes a
    fence, 0 if none does. ``silent`` blocks hold no text for a reader: rules,
    comments, anchors, link targets. A heading has its inline markdown as ``source`` and
    its own first line as ``heading_line``; its ``first`` takes in the anchors above it.
    """

    kind: BlockKind
    first: int
    last: int
    children: "tuple[Block, ...]" = ()
    level: int = 0
    source: str = ""
    heading_line: int = 0
    head_last: int = 0
    lead: str = ""
    tail: str = ""
    foot: int = 0
    silent: bool = False

    def is_open_before(self, line: int) -> bool:
        """Tell whether a piece that starts with ``line`` needs the lead."""
        return 0 < self.head_last < line and not 0 < self.foot < line

    def is_open_after(self, line: int) -> bool:
        """Tell whether a piece that ends with ``line`` needs the tail."""
        return 0 < self.head_last <= line and not 0 < self.foot <= line

    def open_tail(self) -> str:
        """Return what closes a fence that the end of this block leaves open."""
        block = self
        while block.children:
            block = block.children[-1]
        return "" if block.foot else block.tail


@dataclass(frozen=True, slots=True)
class BlockTree:
    """The blocks of a document, and the link targets its headings may refer to."""

    blocks: tuple[Block, ...]
    environment: EnvType


_Rule = Callable[[StateBlock, int, int, bool], bool]


def _shallow(
    rule: _Rule, state: StateBlock, start: int, end: int, silent: bool
) -> bool:
    # Silent calls ask whether this line ends a paragraph: true at any depth.
    return (silent or state.level < MAX_NESTING) and rule(state, start, end, silent)


def _windowed_quote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """
    Parse a quote, looking no further ahead than about as far as it turns out to go.

    markdown-it walks to the next blank line first, and from every quote again.
    """
    known_tokens = len(state.tokens)
    window = QUOTE_WINDOW_LINES
    while True:
        limit = min(end, start + window)
        found = _shallow(blockquote, state, start, limit, silent)
        if silent or not found or limit == end or state.line < limit:
            return found
        del state.tokens[known_tokens:]
        # The large step keeps repeated work small where quotes are nested.
        window *= 8


def _whole_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Find a table and its end as markdown-it does, and push one token for it."""
    if not table(state, start, end, True):
        return False
    if silent:
        return True
    parent_type, state.parentType = state.parentType, "table"
    terminators = state.md.block.ruler.getRules("blockquote")
    line = start + 2
    while (
        line < end
        and state.sCount[line] >= state.blkIndent
        and not state.isEmpty(line)
        and not state.is_code_block(line)
        and not any(ends(state, line, end, True) for ends in terminators)
    ):
        line += 1
    state.parentType = parent_type
    state.push("table", "table", 0).map = [start, line]
    state.line = line
    return True


def _build_parser() -> MarkdownIt:
    # The limit in _shallow comes first, so markdown-it's own is never reached.
    parser = MarkdownIt(
        "commonmark", {"maxNesting": 10 * MAX_NESTING, "inline_definitions": True}
    )
    parser.use(footnote_plugin, inline=False, move_to_end=False)
    parser.enable("table")
    paragraph = ["paragraph", "reference"]
    anything = [*paragraph, "blockquote", "list"]
    for name, rule, interrupts in (
        ("table", _whole_table, paragraph),
        ("list", partial(_shallow, list_block), [*paragraph, "blockquote"]),
        ("blockquote", _windowed_quote, anything),
        ("footnote_def", partial(_shallow, footnote_def), paragraph),
    ):
        parser.block.ruler.at(name, rule, {"alt": interrupts})
    return parser


_PARSER = _build_parser()

_CONTAINERS = {
    "bullet_list_open": BlockKind.LIST,
    "ordered_list_open": BlockKind.LIST,
    "list_item_open": BlockKind.ITEM,
    "blockquote_open": BlockKind.QUOTE,
    "footnote_reference_open": BlockKind.FOOTNOTE,
}
_CLOSINGS = {name.replace("_open", "_close") for name in _CONTAINERS}
_LEAVES = {
    "heading_open": BlockKind.HEADING,
    "paragraph_open": BlockKind.PARAGRAPH,
    "table": BlockKind.TABLE,
    "fence": BlockKind.FENCE,
    "code_block": BlockKind.CODE,
    "html_block": BlockKind.HTML,
    "hr": BlockKind.RULE,
    "definition": BlockKind.DEFINITION,
}


def parse_blocks(lines: Lines, first: int) -> BlockTree:
    """Parse the lines from ``first`` on."""
    environment: EnvType = {}
    tokens: list[Token] = []
    # To markdown-it a line of form feeds is a paragraph; here it is blank. And it may
    # look past the end of a last line that does not end.
    body = "".join(
        "\n" if lines.is_blank(number) else lines.line(number) + "\n"
        for number in range(first, len(lines.lines) + 1)
    )
    _PARSER.block.parse(body, _PARSER, environment, tokens)
    return BlockTree(_Builder(lines, first).build(tokens), environment)


class _Builder:
    """Turns the token stream into the tree; ``first`` is the line of token line 0."""

    def __init__(self, lines: Lines, first: int) -> None:
        self.lines = lines
        self.first = first

    def build(self, tokens: list[Token]) -> tuple[Block, ...]:
        last = len(self.lines.lines)
        root = Block(BlockKind.DOCUMENT, self.first, last)
        stack: list[tuple[Block, list[Block]]] = [(root, [])]
        for token, following in pairwise([*tokens, Token("end", "", 0)]):
            if token.type in _CONTAINERS:
                block = Block(_CONTAINERS[token.type], *self._span(token))
                stack.append((block, []))
            elif token.type in _CLOSINGS:
                block, children = stack.pop()
                stack[-1][1].append(replace(block, children=tuple(children)))
            elif token.type in _LEAVES:
                stack[-1][1].append(self._leaf(token, following))
        return self._tiled(replace(root, children=tuple(stack[0][1]))).children

    def _span(self, token: Token) -> tuple[int, int]:
        start, end = token.map or (0, 1)
        first = start + self.first
        return first, self.lines.last_solid(first, end + self.first - 1)

    def _leaf(self, token: Token, following: Token) -> Block:
        kind = _LEAVES[token.type]
        first, last = self._span(token)
        match kind:
            case BlockKind.HEADING:
                return Block(
                    kind,
                    first,
                    last,
                    level=int(token.tag[1:]) if token.level == 0 else 0,
                    source=following.content,
                    heading_line=first,
                )
            case BlockKind.FENCE:
                return self._fence(token, first, last)
            case BlockKind.TABLE:
                lead = self.lines.text(first, first + 1)
                return Block(kind, first, last, head_last=first + 1, lead=lead)
            case BlockKind.HTML | BlockKind.PARAGRAPH:
                return self._text_or_markup(kind, first, last)
            case _:
                silent = kind in {BlockKind.RULE, BlockKind.DEFINITION}
                return Block(kind, first, last, silent=silent)

    def _fence(self, token: Token, first: int, last: int) -> Block:
        opening = self.lines.line(first)
        prefix, mark, info = opening.partition(token.markup)
        # `- ` before the opening belongs to the item's first line only.
        prefix = _CONTAINER_MARK.sub(" ", prefix)
        if len(opening) > MAX_FENCE_LEAD_CHARS:
            prefix, info = prefix[:MAX_FENCE_LEAD_CHARS], ""
        start, end = token.map or (0, 1)
        closed = token.content.count("\n") < end - start - 1
        return Block(
            BlockKind.FENCE,
            first,
            last,
            head_last=first,
            lead=prefix + mark + info,
            tail=prefix + mark,
            foot=last if closed else 0,
        )

    def _text_or_markup(self, kind: BlockKind, first: int, last: int) -> Block:
        """Make a block of text, or mark it as a comment or an anchor."""
        silent = False
        if self.lines.size(first, last) <= MAX_MARKUP_CHARS:
            text = self.lines.text(first, last)
            rest = _COMMENT.sub("", text).strip() if "<" in text else text
            silent = not _ANCHOR.sub("", rest).strip()
            kind = BlockKind.ANCHOR if silent and rest else kind
        return Block(kind, first, last, silent=silent)

    def _tiled(self, parent: Block) -> Block:
        """Give lines that no child claims to the child after them, or the last one."""
        return replace(parent, children=tuple(self._stretched(parent)))

    def _stretched(self, parent: Block) -> Iterator[Block]:
        first = self.lines.next_solid(parent.first)
        for position, child in enumerate(parent.children, 1):
            end = parent.last if position == len(parent.children) else child.last
            last = self.lines.last_solid(child.first, end)
            if (first, last) != (child.first, child.last):
                child = replace(child, first=first, last=last)
            yield self._tiled(child) if child.children else child
            first = self.lines.next_solid(last + 1)
