"""Results of a benchmark as a table."""

from __future__ import annotations

from collections.abc import Sequence

from mtkit.bench.grid import BenchResult
from mtkit.io.table import Table

_SETTING_COLUMNS = ("engine", "compute type", "beam", "batch", "workers")
_RESULT_COLUMNS = ("lines/s", "tokens/s", "p50 ms", "p95 ms", "MiB", "BLEU")


def bench_table(rows: Sequence[BenchResult]) -> Table:
    """Table with one row for each setting; a setting that the engine does not support has dashes."""
    all_cells = []
    for row in rows:
        setting = row.setting
        cells = (
            setting.engine,
            row.actual_compute_type or setting.compute_type,
            str(setting.beam_size),
            "default" if setting.batch_tokens is None else f"{setting.batch_tokens:,}",
            f"{setting.workers} × {setting.threads_per_worker}",
        )
        all_cells.append([*cells, *(_result_cells(row) if row.error is None else ["–"] * len(_RESULT_COLUMNS))])
    return Table([*_SETTING_COLUMNS, *_RESULT_COLUMNS], all_cells, text=_SETTING_COLUMNS)


def unsupported_settings(rows: Sequence[BenchResult]) -> list[str]:
    """Errors of the settings that an engine does not support, each once."""
    return list(dict.fromkeys(f"{row.setting.engine}: {row.error}" for row in rows if row.error is not None))


def _result_cells(row: BenchResult) -> list[str]:
    return [
        f"{row.sentences_per_second:,.1f}",
        f"{row.tokens_per_second:,.0f}",
        f"{row.latency_p50:,.1f}",
        f"{row.latency_p95:,.1f}",
        f"{row.memory:,.0f}",
        "" if row.bleu is None else f"{row.bleu:.2f}",
    ]
