from mtkit.corpus.order.dummy_batch import made_up_batch
from mtkit.text.vocab import Vocab


def test_a_made_up_batch_is_full():
    src, tgt = (Vocab(size=size, pad=0, unk=1, bos=2, eos=3) for size in (7, 9))
    batch = made_up_batch(3, 5, src, tgt)
    assert batch.source.ids.tolist() == [[6, 6, 6, 6, 3]] * 3
    assert batch.target.ids.tolist() == [[2, 8, 8, 8, 8]] * 3
    assert bool(batch.source.real.all() and batch.scored.all())
