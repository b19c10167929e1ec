"""Pairs with HTML on one side alone."""

from __future__ import annotations

import re

from mtkit.corpus.filters.config import MarkupFilterConfig
from mtkit.corpus.filters.filter import MAX_COMPARED, Filter

_MARKUP = re.compile(
    r"</?(?:a|abbr|b|blockquote|body|br|button|center|code|dd|div|dl|dt|em|font|form|h[1-6]|head|hr|html|i|iframe|img|"
    r"input|li|link|meta|ol|option|p|pre|s|script|select|small|span|strong|style|sub|sup|table|tbody|td|th|title|tr|tt|"
    r"u|ul)(?:\s[^<>]{0,500})?/?>|&(?:[a-z]{2,8}|#\d{1,6}|#x[0-9a-f]{1,5});|<!--|<!\[CDATA\[",
    re.IGNORECASE,
)


class MarkupFilter(Filter):
    """Pairs with HTML tags or entities on one side alone; on both, they are to be translated with the text."""

    def __init__(self, config: MarkupFilterConfig) -> None:
        pass

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The side with markup."""
        src_has, tgt_has = (
            ("<" in line or "&" in line) and _MARKUP.search(line[:MAX_COMPARED]) is not None for line in (src, tgt)
        )
        return None if src_has == tgt_has else int(tgt_has)
