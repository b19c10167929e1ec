"""Codes of languages (BCP 47) as clients write them, matched with those of the models; English names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from mtkit.text.language import language_code

NAMES: dict[str, str] = dict(
    re.findall(
        r"(\w+):(\w+)",
        "af:Afrikaans am:Amharic an:Aragonese ar:Arabic as:Assamese az:Azerbaijani be:Belarusian bg:Bulgarian "
        "bn:Bengali bo:Tibetan br:Breton bs:Bosnian ca:Catalan cs:Czech cy:Welsh da:Danish de:German dz:Dzongkha "
        "el:Greek en:English eo:Esperanto es:Spanish et:Estonian eu:Basque fa:Persian fi:Finnish fo:Faroese "
        "fr:French fy:Frisian ga:Irish gd:Gaelic gl:Galician gu:Gujarati ha:Hausa he:Hebrew hi:Hindi hr:Croatian "
        "hu:Hungarian hy:Armenian id:Indonesian ig:Igbo is:Icelandic it:Italian ja:Japanese jv:Javanese ka:Georgian "
        "kk:Kazakh km:Khmer kn:Kannada ko:Korean ku:Kurdish ky:Kyrgyz lb:Luxembourgish lo:Lao lt:Lithuanian "
        "lv:Latvian mg:Malagasy mk:Macedonian ml:Malayalam mn:Mongolian mr:Marathi ms:Malay mt:Maltese my:Burmese "
        "nb:Norwegian ne:Nepali nl:Dutch nn:Nynorsk no:Norwegian oc:Occitan om:Oromo or:Odia pa:Punjabi pl:Polish "
        "ps:Pashto pt:Portuguese qu:Quechua ro:Romanian ru:Russian rw:Kinyarwanda sd:Sindhi se:Sami si:Sinhala "
        "sk:Slovak sl:Slovenian so:Somali sq:Albanian sr:Serbian ss:Swati st:Sotho sv:Swedish sw:Swahili ta:Tamil "
        "te:Telugu tg:Tajik th:Thai ti:Tigrinya tk:Turkmen tl:Tagalog tn:Tswana tr:Turkish ts:Tsonga tt:Tatar "
        "ug:Uyghur uk:Ukrainian ur:Urdu uz:Uzbek vi:Vietnamese wa:Walloon wo:Wolof xh:Xhosa yi:Yiddish yo:Yoruba "
        "zh:Chinese zu:Zulu",
    )
)
RIGHT_TO_LEFT = frozenset({"ar", "dv", "fa", "he", "ku", "ps", "sd", "ug", "ur", "yi"})
_ALIASES = {"iw": "he", "in": "id", "ji": "yi", "no": "nb", "zt": "zh-hant", "pb": "pt-br", "fil": "tl", "nob": "nb"}
_SCRIPTS = {"zh-tw": "zh-hant", "zh-hk": "zh-hant", "zh-mo": "zh-hant", "zh-cn": "zh-hans", "zh-sg": "zh-hans"}
_CODE = re.compile(r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8}){0,4}")


def is_code(text: str) -> bool:
    """Return whether a text has the form of a language tag."""
    return _CODE.fullmatch(text) is not None


@lru_cache(maxsize=1000)
def normal_code(code: str) -> str:
    """The code in small letters with hyphens, two letters where there are, and today's names: ENG -> en, iw -> he."""
    code = code.strip().lower().replace("_", "-")
    code = _ALIASES.get(code, _SCRIPTS.get(code, code))
    first, _, rest = code.partition("-")
    first = language_code(first) or first
    first = _ALIASES.get(first, first)
    return f"{first}-{rest}" if rest else first


def match_language(code: str, available: Iterable[str]) -> str | None:
    """The language of `available` that a code means; None if none does.

    The code itself comes first, then what is left without its last subtags (RFC 4647, sec. 3.4), then a language with
    subtags that the code lacks: pt is pt-BR if there is no pt, but en-GB is not en-US, and zh-Hant not zh-Hans.
    """
    if not is_code(code.strip()):
        return None
    by_code: dict[str, str] = {}
    for each in available:
        by_code.setdefault(normal_code(each), each)
    wanted = normal_code(code)
    subtags = wanted.split("-")
    for length in range(len(subtags), 0, -1):
        if (shorter := "-".join(subtags[:length])) in by_code:
            return by_code[shorter]
    return next((name for other, name in by_code.items() if other.startswith(f"{wanted}-")), None)


def language_name(code: str) -> str:
    """The English name of a language; its code if it is unknown."""
    normal = normal_code(code)
    first, _, rest = normal.partition("-")
    name = NAMES.get(first, code)
    return f"{name} ({rest.title() if len(rest) == 4 else rest.upper()})" if rest and name != code else name
