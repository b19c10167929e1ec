"""The interface of OpenAI's chat completions: the text of the last message is translated, and the rest is not read.

The model names the direction, such as `en-de` or `auto-de`, and `en-de/NAME` one of several models. Request and answer
are as https://platform.openai.com/docs/api-reference/chat has them; parameters that would have no effect on a
translation are taken, others refused. A stream has one chunk for each sentence.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from mtkit.serve.clients import RequestError
from mtkit.serve.core import AUTO, LINE_END, RequestOptions
from mtkit.serve.fronts.front import (
    ANYTHING,
    FLAG,
    INTEGER,
    TEXT,
    Endpoint,
    Front,
    RequestField,
    choice,
    integer_to,
    list_of,
    record,
)
from mtkit.serve.fronts.requests import RequestFields, without_surrogates
from mtkit.text.sentences import split_sentences
from mtkit.translate.segments import space_between

MAX_CHOICES = 10
# parameters of sampling, of storage and of models that reason: a translation is the same with them and without
_NO_EFFECT = (
    *("frequency_penalty", "max_completion_tokens", "max_tokens", "metadata", "parallel_tool_calls"),
    *("presence_penalty", "prompt_cache_key", "reasoning_effort", "safety_identifier", "seed", "service_tier"),
    *("store", "temperature", "top_p", "user", "verbosity"),
)
_NAMES = {"api_key", "model", "messages", "n", "stream", "stream_options", *_NO_EFFECT}
_USAGE = record(prompt_tokens=INTEGER, completion_tokens=INTEGER, total_tokens=INTEGER)
_MESSAGE = record(role=choice(["system", "developer", "user", "assistant"]), content=ANYTHING)


class OpenAI(Front):
    """Chat completions and the list of models."""

    prefix = "/v1/"
    title = "OpenAI"
    fields: ClassVar[Mapping[str, RequestField]] = {
        **dict.fromkeys(_NO_EFFECT, RequestField("no effect on a translation")),
        "model": RequestField(
            "direction, such as en-de or auto-de, and en-de/NAME of several models", "{source}-{target}"
        ),
        "messages": RequestField(
            "the text of the last one is translated", [{"role": "user", "content": "The dog sleeps."}]
        ),
        "n": RequestField("number of translations"),
        "stream": RequestField("whether the answer comes sentence by sentence, as server-sent events"),
        "stream_options": RequestField("whether the last event of a stream has the usage"),
    }
    error_schema = ("OpenAIError", record(error=record(message=TEXT, type=TEXT)))

    def endpoints(self) -> list[Endpoint]:
        """The endpoints."""
        body = record(
            model=TEXT,
            messages={**list_of(_MESSAGE), "minItems": 1},
            optional={
                "n": {**integer_to(MAX_CHOICES), "minimum": 1},
                "stream": FLAG,
                "stream_options": record(optional={"include_usage": FLAG}),
                **dict.fromkeys(_NO_EFFECT, ANYTHING),
            },
        )
        model = record(id=TEXT, object=TEXT, created=INTEGER, owned_by=TEXT)
        head = {"id": TEXT, "object": TEXT, "created": INTEGER, "model": TEXT}
        completion = record(**head, choices=list_of({"type": "object"}), usage=_USAGE)
        return [
            Endpoint(
                "/v1/chat/completions",
                self.complete,
                ["POST"],
                body=body,
                answer=completion,
                media_types=["application/json", "text/event-stream"],
                errors=[404],
            ),
            Endpoint("/v1/models", self.list_models, answer=record(object=TEXT, data=list_of(model))),
        ]

    def error_body(self, error: RequestError) -> dict[str, Any]:
        """The body of an error, by which OpenAI's libraries choose the class of an exception."""
        kind = "server_error" if error.status >= 500 else "invalid_request_error"
        return {"error": {"message": str(error), "type": kind, "param": None, "code": None}}

    def _models(self) -> dict[str, tuple[str, str, str | None]]:
        """Source, target and model by the identifiers of directions."""
        registry = self._service.registry
        pairs = [(source, target) for source, targets in registry.targets.items() for target in targets]
        models: dict[str, tuple[str, str, str | None]] = {f"{src}-{tgt}": (src, tgt, None) for src, tgt in pairs}
        models |= {f"{AUTO}-{tgt}": (AUTO, tgt, None) for _, tgt in pairs}
        pairs = [(src, tgt) for src, tgt, _ in self._served()]
        served = [each for each in self._served() if pairs.count(each[:2]) > 1]
        return models | {f"{src}-{tgt}/{name}": (src, tgt, name) for src, tgt, name in served}

    def _served(self) -> list[tuple[str, str, str]]:
        """Source, target and name of each model."""
        return [(*pair, hop.name) for pair, hops in self._service.registry.directions.items() for hop in hops]

    async def list_models(self, request: Request) -> Response:
        """Directions and models."""
        await self._admit(request)
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "mtkit"} for name in self._models()]
        return JSONResponse({"object": "list", "data": data})

    async def complete(self, request: Request) -> Response:
        """Translate the text of the last message."""
        fields, client = await self._admit(request)
        if unknown := fields.names - _NAMES:
            raise RequestError(400, f"{min(unknown)[:40]}: no parameter of a translation")
        name, text, models = fields.text("model"), _last_text(fields), self._models()
        alone = [each for each in self._served() if each[2] == name]  # the name of a model of one direction will do
        if len(alone) == 1:
            models.setdefault(name, alone[0])
        if name not in models:
            raise RequestError(404, f"model: {name[:80]!r} is not one of {', '.join(models)}")
        source, target, model = models[name]
        if not (count := fields.integer("n", 1, maximum=MAX_CHOICES)):
            raise RequestError(400, "n: at least one choice is expected")
        self._service.check_length([text])
        direction, _ = self._service.detect_direction(text, source, target, model, passes_unread=True)
        options = RequestOptions(client=client, alternatives=count - 1, model=model)
        head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": name}

        async def translate(line: str) -> str:
            (result,) = await self._service.translate_texts([line], direction, options)
            return result.hyp

        if fields.flag("stream"):
            if count > 1:
                raise RequestError(400, "n: a stream has one choice")
            with_usage = fields.record("stream_options").get("include_usage") is True
            events = self._events(_sentences(text), translate, {**head, "object": "chat.completion.chunk"}, with_usage)
            return StreamingResponse(events, media_type="text/event-stream")
        (result,) = await self._finish(request, self._service.translate_texts([text], direction, options))
        texts = [result.hyp, *result.alternatives[: count - 1]]
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": each, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
            for index, each in enumerate(texts)
        ]
        answer = {**head, "object": "chat.completion", "choices": choices, "usage": _usage(text, *texts)}
        return JSONResponse(answer)

    async def _events(
        self,
        sentences: list[tuple[str, str]],
        translate: Callable[[str], Coroutine[Any, Any, str]],
        head: dict[str, Any],
        with_usage: bool,
    ) -> AsyncIterator[str]:
        """Server-sent events: a chunk for each sentence, the end, and numbers of words if they are wanted."""

        def event(delta: dict[str, str], finish_reason: str | None = None) -> str:
            choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]
            return _event({**head, "choices": choices, **({"usage": None} if with_usage else {})})

        yield event({"role": "assistant", "content": ""})
        tasks = [asyncio.create_task(translate(sentence)) for _, sentence in sentences]
        written = ""
        try:
            async with asyncio.timeout(self._service.settings.timeout):
                for (space, _), task in zip(sentences, tasks, strict=True):
                    hyp = await task
                    is_inside = written and "\n" not in space and "\r" not in space
                    chunk = f"{space_between(written, space, is_blank=not hyp) if is_inside else space}{hyp}"
                    written += chunk
                    yield event({"content": chunk})
            yield event({}, "stop")
            if with_usage:
                source = "".join(map("".join, sentences))
                yield _event({**head, "choices": [], "usage": _usage(source, written)})
        except RequestError as error:
            yield _event(self.error_body(error))
        except TimeoutError:
            message = f"the translation took more than {self._service.settings.timeout:g} s; send less"
            yield _event(self.error_body(RequestError(503, message)))
        finally:
            for task in tasks:
                task.cancel()
        yield "data: [DONE]\n\n"


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


def _usage(text: str, *hyps: str) -> dict[str, int]:
    """Numbers of words, since tokens differ from model to model."""
    prompt, completion = len(text.split()), sum(len(each.split()) for each in hyps)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _last_text(fields: RequestFields) -> str:
    """The text of the last message, whose content is a text or a list of parts with texts."""
    messages = fields.records("messages")
    if not messages or messages[-1].get("role") != "user":
        raise RequestError(400, "messages: the last one is expected to have the role user, and the text to translate")
    content = messages[-1].get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise RequestError(400, "messages: the content is expected to be a text or parts with a text")
    return without_surrogates("".join(map(str, texts)))


def _sentences(text: str) -> list[tuple[str, str]]:
    """White space and line ends before each sentence, and the sentence."""
    sentences: list[tuple[str, str]] = []
    space = ""
    for index, part in enumerate(LINE_END.split(text)):
        for piece in [part] if index % 2 else split_sentences(part):
            sentence = piece.lstrip()
            space += piece[: len(piece) - len(sentence)]
            if sentence:
                sentences.append((space, sentence))
                space = ""
    return [*sentences, (space, "")] if space else sentences
