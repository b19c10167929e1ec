"""Process of a model, `python -m mtkit.serve.processes.worker FD`: loads it once, and forks workers with one thread.

The server sends the settings of the model over the control socket FD, then the sockets of its workers. A worker is a
copy of this process, so that it starts in milliseconds and shares the weights. All end when the server closes their
sockets, which happens however it ends; signals are the server's to handle.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NoReturn

from mtkit.errors import MtkitError
from mtkit.hardware import set_num_threads
from mtkit.search.config import MaxLength
from mtkit.serve.processes.messages import receive, send
from mtkit.signals import HANDLED
from mtkit.text.source_prefix import SourcePrefix
from mtkit.translate.alignment import words_of
from mtkit.translate.glossary import Glossary, is_word_boundary
from mtkit.translate.lines import ConstrainedLine, Line, text_of
from mtkit.translate.load import AdaptedTranslators, TranslatorSpec
from mtkit.translate.translation import Translation
from mtkit.translate.translator import Translator
from mtkit.translate.workers import load_for_forks

MAX_VARIANTS = 32  # translators with other options or another glossary, which share engine and model
LONGEST_WORD = 40  # characters; in a longer one, of a script without spaces, what one token adds is the word
_PLACE = re.compile(r"^line \d+: ")


def main() -> None:
    """Load the model and fork a worker for each socket that comes, until the control socket closes."""
    for number in HANDLED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the workers leave no zombies
    control = socket.socket(fileno=int(sys.argv[1]))
    with suppress(EOFError, OSError):
        settings = receive(control)
        try:
            translators = load_for_forks(partial(load, settings))
        except (MtkitError, MemoryError, RuntimeError, OSError) as error:
            send(control, {"error": str(error) or type(error).__name__})
            return
        send(control, {"can_fork": translators.can_fork})
        while True:
            message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not message:
                return
            if not translators.can_fork:  # on a GPU: this process is the one worker
                send(control, {"pid": os.getpid()})
                work(socket.socket(fileno=descriptors[0]), translators)
            pid = os.fork()
            if pid == 0:
                control.close()
                work(socket.socket(fileno=descriptors[0]), translators)
            os.close(descriptors[0])
            send(control, {"pid": pid})


def load(settings: dict[str, Any]) -> AdaptedTranslators:
    """The translators of a model and its adapters; errors as `load_translator`."""
    spec = TranslatorSpec(
        models=[Path(settings["model"])],
        search_overrides=settings["search"],
        compute_type=settings["compute_type"],
        device=settings["device"],
    )
    return AdaptedTranslators(spec, {name: Path(folder) for name, folder in settings["adapters"].items()})


def work(sock: socket.socket, translators: AdaptedTranslators) -> NoReturn:
    """Translate batches until the socket closes, which ends the process."""
    set_num_threads(1)
    variant = lru_cache(MAX_VARIANTS)(partial(make_variant, translators))
    with suppress(EOFError, OSError):
        while True:
            batch = receive(sock)
            send(sock, translate(variant(json.dumps(batch["options"])), batch["lines"], batch["options"]))
    os._exit(0)


def make_variant(translators: AdaptedTranslators, options_json: str) -> Translator:
    """The translator of a model or of one of its adapters with the options of a request."""
    options = json.loads(options_json)
    base, n_best = translators[options["adapter"]], options["n_best"]
    return base.varied(
        search=replace(base.search, n_best=n_best, beam_size=max(n_best, base.search.beam_size)),
        options=replace(
            base.options,
            split_sentences=options["sentences"] or None,
            with_scores=options["details"],
            source_prefix=SourcePrefix(**dict(options["prefix"])),
            glossary=Glossary.of(json.loads(options["glossary"])) if options["glossary"] else None,
        ),
    )


def translate(
    translator: Translator, texts: Sequence[tuple[str, str]], options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Translate texts, each with the beginning of its translation; errors take the place of results."""
    lines: list[Line] = [ConstrainedLine(text=text, prefix=prefix) if prefix else text for text, prefix in texts]
    results: list[dict[str, Any]] = []
    while len(results) < len(lines):
        try:
            results.extend(_results(translator, lines[len(results) :], options))
        except (MtkitError, MemoryError) as error:
            results.append({"error": _PLACE.sub("", str(error)) or "out of memory"})
    return results


def _results(translator: Translator, lines: Sequence[Line], options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if count := options["next_words"]:
        yield from ({"next": next_words(translator, line, count)} for line in lines)
        return
    for translation in translator.translate(lines):
        result: dict[str, Any] = {"hyp": translation.hyp, "flags": translation.flags}
        if options["n_best"] > 1:
            result["alternatives"] = [each.hyp for each in translation.nbest[1:]]
        if options["details"]:
            result["alignment"] = translation.alignment
            result["confidence"] = word_confidence(translation)
            result["terms"] = translation.terms
            result["dropped"], result["invented"] = translation.dropped, translation.invented
        yield result


def word_confidence(translation: Translation) -> list[float | None]:
    """The probability of the least probable token of each word; None where words were put in after the search."""
    words = translation.hyp.split()
    values: list[float] = []
    for word, log_prob in zip(words_of(translation.tokens), translation.token_log_probs, strict=False):
        if word >= 0:
            values += [1.0] * (word + 1 - len(values))
            values[word] = min(values[word], math.exp(log_prob))
    return [round(each, 3) for each in values] if len(values) == len(words) else [None] * len(words)


def next_words(translator: Translator, line: Line, count: int) -> list[tuple[str, str]]:
    """The most probable words after the beginning of a translation, the best first, each with the translation.

    A beam of `count` hypotheses that may have one token more than the beginning finds the most probable next tokens.
    Each begins a search of its own, which completes the word and the translation; tokens of the same word count once.

    Args:
        translator: its constraints hold for the translations.
        line: the source, with the beginning as its prefix.
        count: number of tokens.

    Raises:
        MtkitError: as `Translator.translate`.
    """
    text, prefix = text_of(line), line.prefix.strip() if isinstance(line, ConstrainedLine) else ""
    num_tokens = len(translator.tokenizers.tgt.encode([prefix])[0]) if prefix else 0
    wide = replace(
        translator.search,
        beam_size=count,
        n_best=count,
        max_length=MaxLength(factor=0.0, offset=num_tokens + 1),
        retry_loops=False,
    )
    options = replace(translator.options, glossary=None, restore=False)
    wide_beam = translator.varied(search=wide, options=options)
    (first,) = wide_beam.translate([ConstrainedLine(text=text, prefix=prefix)])
    begun = [each for each in dict.fromkeys(each.hyp.strip() for each in first.nbest) if len(each) > len(prefix)]
    words: dict[str, str] = {}
    lines = [ConstrainedLine(text=text, prefix=each) for each in begun]
    for beginning, translation in zip(begun, translator.translate(lines), strict=True):
        hyp = translation.hyp.strip()
        if hyp.startswith(prefix) and is_word_boundary(hyp, len(prefix)) and (rest := hyp[len(prefix) :].split()):
            word = rest[0] if len(rest[0]) <= LONGEST_WORD else beginning[len(prefix) :].strip()
            words.setdefault(word, hyp)
    return [*words.items()]


if __name__ == "__main__":
    main()
