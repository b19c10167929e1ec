import pytest

from mtkit.training import chunked_loss


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Split the few positions of these tests into several chunks, the last one not full."""
    monkeypatch.setattr(chunked_loss, "CHUNK_SIZE", 3)
