"""Languages of text files, guessed from their names and from the text.

The text is classified by py3langid (Lui and Baldwin 2012, https://aclanthology.org/P12-3005), which needs no download.
Its probabilities are too even: of the answers with 0.9, 99.9% are right, and of two words of German 1 in 10 gets 0.9.
Squares of them, normalised, are calibrated; SHARPNESS and RARE_WEIGHT were chosen by the likelihood of one half of the
documents of NTREX and measured on the other half (tools/benchmarks/language_detection.py, docs/server.md).
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from mtkit.text.lines import COMPRESSION_SUFFIXES

CLASSIFIED_LINES = 1000
CLASSIFIED_CHARACTERS = 20_000
MIN_PROBABILITY = 0.9
NO_LANGUAGE = "zxx"  # of numbers and signs
SHARPNESS = 2  # exponent of py3langid's probabilities
RARE_WEIGHT = 0.05  # of a language without a code of two letters
MACROLANGUAGES = {  # ISO 639-3: the classifier's languages that are mostly written as another
    "ary": "ar", "arz": "ar", "ltg": "lv", "sdh": "ku", "uzs": "uz", "wuu": "zh", "yue": "zh",
}  # fmt: skip
TWO_LETTERS = frozenset(
    re.findall(
        "..",
        "afamanarasazbebgbnbobrbscacscydadedzeleneoeseteufafifofrfygagdglguhahehihrhthuhyidigisitjajvkakkkmknkokukylalb"
        "loltlvmgmkmlmnmrmsmtmynbnenlnnnoocomorpaplpsptqurorurwsdsesiskslsnsosqsrssstsusvswtatetgthtitktltntrtsttuguk"
        "uruzviwawoxhyiyozhzu",
    )
)
THREE_LETTERS: dict[str, str] = dict(
    re.findall(
        r"(\w+):(\w+)",
        "ara:ar arb:ar ben:bn bul:bg cat:ca ces:cs cmn:zh cze:cs dan:da deu:de ell:el eng:en est:et eus:eu fas:fa "
        "fin:fi fra:fr fre:fr ger:de gle:ga glg:gl hau:ha heb:he hin:hi hrv:hr hun:hu ibo:ig ind:id isl:is ita:it "
        "jpn:ja kat:ka kaz:kk khm:km kor:ko lao:lo lat:la lav:lv lit:lt mkd:mk msa:ms mya:my nld:nl nob:nb nor:no "
        "pol:pl por:pt ron:ro rus:ru slk:sk slv:sl som:so spa:es sqi:sq srp:sr swa:sw swe:sv swh:sw tam:ta tel:te "
        "tha:th tur:tr ukr:uk urd:ur vie:vi yor:yo zho:zh zul:zu",
    )
)
SIMILAR = ({"no", "nb", "nn", "da"}, {"hr", "bs", "sr"}, {"id", "ms"}, {"cs", "sk"})
CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")  # as recipes and options may have it


def split_name(path: Path) -> tuple[str, str | None]:
    """The name of a file without suffixes of compression, and the language that it ends with, None if it has none.

    train.de.gz is train and de; corpus-en.txt, test.swa and x.zh-CN have languages too.
    """
    name = path.name
    while Path(name).suffix.lower() in (*COMPRESSION_SUFFIXES, ".txt"):
        name = Path(name).stem
    parts = name.split(".") if "." in name else re.split(r"[-_](?=[a-z]+$)", name)
    language = language_code(parts[-1]) or language_code(re.split("[-_]", parts[-1])[-1])
    return ".".join(parts[:-1]) if language and len(parts) > 1 else name, language


def language_code(name: str) -> str | None:
    """The code of a language that a recipe names as de, deu, zh-CN or zh_Hans; None if it is unknown."""
    subtag = re.split("[-_]", name.lower())[0]
    return subtag if subtag in TWO_LETTERS else THREE_LETTERS.get(subtag)


@lru_cache(maxsize=1 << 16)
def script_name(character: str) -> str | None:
    """The script of a letter or mark, the first word of its name in Unicode (LATIN, CJK); None for other characters."""
    is_letter = unicodedata.category(character)[0] in "LM"  # the vowels of some scripts are marks
    return unicodedata.name(character, "").partition(" ")[0] if is_letter else None


@lru_cache(maxsize=256)  # a translation memory asks for each of its segments
def is_language(name: str, wanted: str) -> bool:
    """Return whether a code names the wanted language or one of its regions: en-GB and eng are en, en is not en-GB."""
    codes = [re.split("[-_]", each.lower()) for each in (name, wanted)]
    primary = [language_code(each) or code[0] for each, code in zip((name, wanted), codes, strict=True)]
    return primary[0] == primary[1] and codes[0][1 : len(codes[1])] == codes[1][1:]


def can_classify() -> bool:
    """Return whether py3langid is installed."""
    return importlib.util.find_spec("py3langid") is not None


def language_of_text(lines: Iterable[str]) -> str | None:
    """The language of the first lines of a text; None if it is unclear, or py3langid is not installed."""
    text = " ".join(line for line in itertools.islice(lines, CLASSIFIED_LINES) if line)[:CLASSIFIED_CHARACTERS]
    code, probability = next(iter(rank_languages(text)), (None, 0.0))
    return code if probability >= MIN_PROBABILITY else None


def rank_languages(text: str, *, separate: Collection[str] = ()) -> list[tuple[str, float]]:
    """Languages that a text may be in with their probabilities, the most probable first.

    Args:
        separate: languages that do not count as their macrolanguage.

    Returns:
        Pairs of code and probability; empty if the text has nothing that a language is known by, or py3langid is not
        installed.
    """
    if not text.strip() or not can_classify():
        return []
    ranked = _classifier().rank(text)
    if len({probability for _, probability in ranked}) <= 2:  # all equal; languages with two scripts have the double
        return []
    weights: dict[str, float] = {}
    for code, probability in ranked:
        macrolanguage = code if code in separate else MACROLANGUAGES.get(code, code)
        weight = float(probability) ** SHARPNESS * (1.0 if len(macrolanguage) == 2 or code in separate else RARE_WEIGHT)
        weights[macrolanguage] = weights.get(macrolanguage, 0.0) + weight
    total = sum(weights.values())
    codes = sorted(weights, key=lambda code: -weights[code])
    return [(code, weights[code] / total) for code in codes if code != NO_LANGUAGE]


def is_best_language(text: str, code: str) -> bool:
    """Return whether a language, or one that it is easily confused with, is the most probable one of a text.

    It takes a third of the time of `rank_languages`. True if py3langid is not installed.
    """
    return not can_classify() or are_similar(str(_classifier().classify(text)[0]), code)


@cache
def _classifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@lru_cache(maxsize=4096)
def are_similar(first: str, second: str) -> bool:
    """Return whether two codes mean the same language, or languages that are easily confused in text."""
    first, second = (language_code(each) or MACROLANGUAGES.get(each, each) for each in (first, second))
    return first == second or any({first, second} <= group for group in SIMILAR)
