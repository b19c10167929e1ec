from mtkit.corpus.order.batch import dummy_batch
from mtkit.text.vocab import Vocab


def test_dummy_batch_has_no_padding():
    src, tgt = (Vocab(size=size, pad=0, unk=1, bos=2, eos=3) for size in (7, 9))
    batch = dummy_batch(3, 5, src, tgt)
    assert batch.source.ids.tolist() == [[6, 6, 6, 6, 3]] * 3
    assert batch.target.ids.tolist() == [[2, 8, 8, 8, 8]] * 3
    assert bool(batch.source.real.all() and batch.loss_mask.all())
