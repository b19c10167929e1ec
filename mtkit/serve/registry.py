"""Models of the server: their directions, routes through a third language, loading on demand, exchange for others."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mtkit.errors import DataError, MtkitError, UsageError
from mtkit.io.files import hash_files
from mtkit.model_folder.adapter_folder import read_adapter
from mtkit.model_folder.config_file import CONFIG, WEIGHTS, model_hash, read_config
from mtkit.model_folder.folder import ModelMetadata, find_model, read_metadata
from mtkit.serve.fair_queue import FairQueue
from mtkit.serve.metrics import ServerMetrics
from mtkit.serve.processes.pool import ModelPool
from mtkit.serve.settings import ServerSettings
from mtkit.text.language_tags import is_code, match_language
from mtkit.text.source_prefix import SourcePrefix
from mtkit.translate.load import search_config

PROCESS_BYTES = 100 << 20  # of Python and libraries, before a model is measured
MULTIPLE = "mul"  # source language of a model of many, in ISO 639-2
IDLE_SECONDS = 0.1  # between looks for a model that is idle and can make room


@dataclass(eq=False)
class ServedModel:
    """A model: its queue, and its processes while it is loaded.

    Attributes:
        name: its folder, by which requests choose among several models of a direction.
        adapters: folders of its adapters by name, by which requests choose them too.
        digest: hash of the version that is served.
        version: number of the version, which differs too when a former one comes back.
        used: when it was used last.
        failure: why it cannot be loaded; None: it can, or was not tried.
    """

    name: str
    path: Path
    metadata: ModelMetadata
    digest: str
    queue: FairQueue
    adapters: dict[str, Path] = field(default_factory=dict)
    pool: ModelPool | None = None
    version: int = 0
    used: float = 0.0
    failure: str | None = None
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Hop(NamedTuple):
    """A model, what its texts of a direction begin with, and an adapter, or ""."""

    model: ServedModel
    prefix: SourcePrefix
    adapter: str = ""

    @property
    def name(self) -> str:
        """The name by which requests choose it."""
        return self.adapter or self.model.name


class Registry:
    """All models of the server.

    Attributes:
        directions: pairs of languages, each with the models that translate so.
        targets: the languages, each with those that it can be translated to.
        sources: those of them that can be translated.
    """

    def __init__(self, settings: ServerSettings, metrics: ServerMetrics, note: Callable[[str], None]) -> None:
        """Read the metadata of the models, but not their weights.

        Raises:
            MtkitError: a model does not exist, is damaged, or translates nothing.
        """
        self._settings, self._metrics, self._note = settings, metrics, note
        self._memory = asyncio.Lock()
        self.models: list[ServedModel] = []
        for path in settings.models:
            folder = find_model(path)
            metadata = read_metadata(folder)
            if metadata.is_language_model or metadata.is_encoder_only:
                raise UsageError(f"{folder}: not a translation model; serve translates")
            search_config(metadata.search, settings.search)
            name = folder.parent.name if folder.name == "model" else folder.name
            if name in {each.name for each in self.models}:
                raise UsageError(f"serve: two models are named {name}; rename one of the folders")
            self.models.append(ServedModel(name, path, metadata, "", FairQueue()))
        for name, folder in settings.adapters.items():
            if name in {each.name for each in self.models}:
                raise UsageError(f"serve: a model and an adapter are named {name}; give the adapter another name")
            self._base_of(folder).adapters[name] = folder
        for model in self.models:
            model.digest = _digest(model)
        self.directions: dict[tuple[str, str], list[Hop]] = {}
        unused = []
        for model in self.models:
            metadata = model.metadata
            routes = list(_directions(metadata))
            for source, target, prefix in routes:
                hops = [Hop(model, prefix, adapter) for adapter in ("", *model.adapters)]
                self.directions.setdefault((source, target), []).extend(hops)
            if not routes:
                unused.append(model)
        problem = "neither languages nor tags give a direction from one language to another"
        if not self.directions:
            names = ", ".join(each.name for each in self.models)
            raise UsageError(f"serve: {names}: {problem}; serve a model that has one")
        for model in unused:
            self.models.remove(model)
            self._note(f"{model.name} is not served: {problem}")
        languages = dict.fromkeys(code for pair in self.directions for code in pair)
        self.targets = {src: [tgt for tgt in languages if self.find_route(src, tgt)] for src in languages}
        self.sources = [code for code, targets in self.targets.items() if targets]

    def _base_of(self, folder: Path) -> ServedModel:
        """The model that an adapter belongs to.

        Raises:
            MissingInputError, DataError: the adapter cannot be read, or belongs to none of the models.
            UsageError: it may belong to several.
        """
        adapter, errors, bases = read_adapter(folder), [], []
        for model in self.models:
            try:
                adapter.check_base(read_config(find_model(model.path) / CONFIG)["files"][WEIGHTS])
                bases.append(model)
            except DataError as error:
                errors.append(error)
        if not bases:
            raise errors[0]
        if len(bases) > 1:
            raise UsageError(f"serve: --adapter {folder}: fits several of the models; serve it with its own alone")
        return bases[0]

    def find_route(self, source: str, target: str, model: str | None = None) -> list[Hop]:
        """The models that translate from one language to another, in order; empty if there are none.

        Args:
            source, target: languages, as `targets` has them.
            model: name of a model or an adapter, which translates directly; None: the first of the direction, or two
                with a third language between them.
        """
        direct = self.directions.get((source, target), [])
        if direct or model is not None:
            return [hop for hop in direct if model in (None, hop.name)][:1]
        middles = [tgt for src, tgt in self.directions if src == source and (tgt, target) in self.directions]
        if not middles or source == target:
            return []
        middle = match_language("en", middles) or middles[0]
        return [self.directions[source, middle][0], self.directions[middle, target][0]]

    async def load(self, model: ServedModel) -> None:
        """Load a model unless it is loaded, after others have made room.

        Raises:
            ComputeError: it cannot be loaded.
        """
        model.used = time.monotonic()
        if model.pool is None:
            try:
                await self._load(model)
            except MtkitError as error:
                if str(error) != model.failure:
                    self._note(f"{model.name}: cannot be loaded: {error}")
                model.failure = str(error)
                raise
            model.failure = None

    async def _load(self, model: ServedModel) -> None:
        async with model.loading, self._memory:
            if model.pool is None:
                await self._make_room(_estimated_bytes(model))
                model.pool = await self._start(model)

    async def _start(self, model: ServedModel) -> ModelPool:
        folder = find_model(model.path)
        settings: dict[str, Any] = {
            "model": str(folder),
            "adapters": {name: str(path) for name, path in model.adapters.items()},
            "search": list(self._settings.search),
            "compute_type": self._settings.compute_type,
            "device": self._settings.device,
        }
        pool = ModelPool(settings, model.queue, self._settings.workers, self._metrics, note=self._note)
        await pool.start()
        self._metrics.model_loads.labels(model.name).inc()
        return pool

    async def _make_room(self, needed: int) -> None:
        """Unload models that are idle, the one that was not used for longest first, until there is room."""
        bound = self._settings.max_memory
        while bound and (loaded := [(each, each.pool) for each in self.models if each.pool is not None]):
            if sum(pool.memory() for _, pool in loaded) + needed <= bound:
                return
            idle = [(model.used, model, pool) for model, pool in loaded if not model.queue.count and not pool.busy]
            if not idle:
                await asyncio.sleep(IDLE_SECONDS)
                continue
            _, model, pool = min(idle, key=lambda each: each[0])
            model.pool = None
            await pool.retire()

    def failures(self) -> list[str]:
        """The names of the models that cannot be started."""
        return [each.name for each in self.models if (each.failure if each.pool is None else each.pool.failure)]

    async def preload(self) -> None:
        """Load the models that fit into the memory together."""
        used = 0
        for model in self.models:
            used += _estimated_bytes(model)
            if not self._settings.max_memory or used <= self._settings.max_memory:
                await self._load(model)

    async def reload(self) -> None:
        """Exchange the models whose folders have changed; requests that wait are translated by the new version."""
        for model in self.models:
            async with model.loading:
                try:
                    await self._exchange(model)
                except MtkitError as error:
                    self._note(f"the model before stays: {error}")

    async def _exchange(self, model: ServedModel) -> None:
        folder = find_model(model.path)
        digest, metadata = _digest(model), read_metadata(folder)
        if digest == model.digest:
            return
        if _languages(metadata) != _languages(model.metadata):
            raise UsageError(f"{folder}: translates other languages than before; start the server again")
        pool = None if model.pool is None else await self._start(model)
        old, model.pool, model.digest, model.metadata = model.pool, pool, digest, metadata
        model.version += 1
        model.failure = None
        if old is not None:
            await old.retire()
        self._note(f"{model.name}: exchanged for its new version")

    async def close(self) -> None:
        """End all processes."""
        await asyncio.gather(*(each.pool.retire() for each in self.models if each.pool is not None))


def _digest(model: ServedModel) -> str:
    """The hash of a model and its adapters; errors as `model_hash` and `hash_files`."""
    parts = [model_hash(find_model(model.path)), *(hash_files(folder) for folder in model.adapters.values())]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _directions(metadata: ModelMetadata) -> Iterator[tuple[str, str, SourcePrefix]]:
    """Source and target language of each direction of a model, and what its texts begin with there."""
    if metadata.languages:
        for source, target in itertools.permutations(metadata.languages, 2):
            yield source, target, SourcePrefix(src_lang=source, tgt_lang=target)
        return
    tags = [tag for tag in metadata.tags if is_code(tag)]
    targets = [(tag, tag) for tag in tags] if metadata.requires_tag else [(metadata.tgt_lang, None)]
    sources = tags if metadata.src_lang == MULTIPLE and metadata.requires_tag else [metadata.src_lang]
    for source, (target, tag) in itertools.product(sources, targets):
        if source != target:
            yield source, target, SourcePrefix(tag=tag)


def _languages(metadata: ModelMetadata) -> tuple[str, str, list[str], list[str]]:
    return metadata.src_lang, metadata.tgt_lang, metadata.tags, metadata.languages


def _estimated_bytes(model: ServedModel) -> int:
    """Memory that a model will need: twice its weights, which are packed again, and a process; as much for adapters."""
    with suppress(MtkitError, OSError):
        return PROCESS_BYTES + (2 + len(model.adapters)) * (find_model(model.path) / WEIGHTS).stat().st_size
    return PROCESS_BYTES
