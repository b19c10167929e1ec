"""The whole model of Bahdanau et al. 2015 against the equations of its appendix A, as loops over Python numbers."""

import math

import pytest
import torch
from torch.testing import assert_close

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.recurrent.config import GRUCellConfig
from mtkit.models.rnn.config import AttentionRNNConfig

D, E, A, VOCAB, BOS = 3, 4, 5, 9, 2
SENTENCES = [([4, 5, 6, 3], [BOS, 7, 8]), ([8, 3], [BOS, 4, 5, 6])]
CELL = GRUCellConfig(reset_gate="before")


def make_model(bridge_source):
    torch.manual_seed(0)
    config = AttentionRNNConfig(
        d_model=D, d_embed=E, d_attention=A, encoder_cell=CELL, decoder_cell=CELL, tied_embeddings="none",
        dropout=0.0, bridge_source=bridge_source,
    )  # fmt: skip
    model = config.build(VOCAB, VOCAB).double()
    for p in model.parameters():
        p.data.add_(0.5 * torch.randn_like(p))  # biases too, which begin at 0
    return model


def weights_of(layer):
    """Rows of a layer's matrix, and its bias, as Python numbers."""
    matrix = layer.weight.tolist()
    return matrix, layer.bias.tolist() if layer.bias is not None else [0.0] * len(matrix)


def apply(layer, *vectors):
    """W [x; y; ...] + b, number by number."""
    x = [number for vector in vectors for number in vector]
    matrix, bias = weights_of(layer)
    return [b + sum(w * number for w, number in zip(row, x, strict=True)) for row, b in zip(matrix, bias, strict=True)]


def add(*vectors):
    return [sum(numbers) for numbers in zip(*vectors, strict=True)]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def gated_unit(cell, from_input, h):
    """A.1.1: h' = (1 - z) h + z tanh(W e + U (r h)); the weights of z have the opposite sign here."""
    gates = add(from_input[: 2 * D], apply(cell.recurrent_gates, h))
    r, z = [sigmoid(x) for x in gates[:D]], [1 - sigmoid(x) for x in gates[D:]]
    candidate = add(from_input[2 * D :], apply(cell.recurrent_candidate, [r[k] * h[k] for k in range(D)]))
    return [(1 - z[k]) * h[k] + z[k] * math.tanh(candidate[k]) for k in range(D)]


def embed(embedding, token):
    return [x * math.sqrt(E) for x in embedding.table.weight[token].tolist()]


def encode(model, src):
    """A.2.1: annotations [h_forward; h_backward], and the last state of each direction."""
    layer, states = model.encoder.layers[0], []
    for cell, order in ((layer.forward_layer.cell, src), (layer.backward_layer.cell, src[::-1])):
        h, outputs = [0.0] * D, []
        for token in order:
            h = gated_unit(cell, apply(cell.input_proj, embed(model.src_embedding, token)), h)
            outputs.append(h)
        states.append(outputs)
    forward, backward = states[0], states[1][::-1]
    return [f + b for f, b in zip(forward, backward, strict=True)], forward[-1], backward[0]


def align(attention, s, annotations):
    """A.1.2: e_ij = v tanh(W s + U h_j), the softmax over j, and c_i."""
    energies = []
    for h in annotations:
        inner = add(apply(attention.query, s), apply(attention.key, h))
        energies.append(apply(attention.score, [math.tanh(x) for x in inner])[0])
    total = sum(math.exp(e) for e in energies)
    weights = [math.exp(e) / total for e in energies]
    return [sum(a * h[k] for a, h in zip(weights, annotations, strict=True)) for k in range(2 * D)]


def log_probs(model, src, tgt, bridge_source):
    """A.2.2: log p(y | y_<i, x) of every token y, at every position i."""
    annotations, forward_end, backward_end = encode(model, src)
    end = backward_end if bridge_source == "backward" else forward_end + backward_end
    s = [math.tanh(x) for x in apply(model.bridges[0].h, end)]  # s_0 = tanh(W_s h_backward_1)
    layer, positions = model.attention_layer, []
    for token in tgt:
        y = embed(model.tgt_embedding, token)
        c = align(layer.attention, s, annotations)
        s = gated_unit(layer.cell, add(apply(layer.cell.input_proj, y), apply(layer.context, c)), s)
        pieces = apply(model.readout.linear, s, y, c)  # [U_o, V_o, C_o] of s_i (eq. 4), E y_{i-1}, c_i
        logits = apply(model.output, [max(pieces[k], pieces[k + E]) for k in range(E)])
        log_total = math.log(sum(math.exp(x) for x in logits))
        positions.append([x - log_total for x in logits])
    return positions


def padded(sides):
    """Ids [B, T] of a side, its real tokens and positions; the sentences are padded to the same length."""
    length = max(len(ids) for ids in sides)
    pos = torch.arange(length).expand(len(sides), -1)
    real = pos < torch.tensor([[len(ids)] for ids in sides])
    return torch.tensor([ids + [0] * (length - len(ids)) for ids in sides]), real, pos


@pytest.mark.parametrize("bridge_source", ["all", "backward"])
def test_the_whole_model_equals_the_papers_equations(bridge_source):
    model = make_model(bridge_source).eval()
    source, target = Source(*padded([s for s, _ in SENTENCES])), Target(*padded([t for _, t in SENTENCES]))
    with torch.no_grad():
        whole = model.output(model.decode_states(source, target)).log_softmax(-1)
        state, steps = model.start(source), []
        for t in range(target.ids.size(1)):
            step = model.step(target.ids[:, t], state)
            state = step.state
            steps.append(step.logits().log_softmax(-1))
    for b, (src, tgt) in enumerate(SENTENCES):
        expected = torch.tensor(log_probs(model, src, tgt, bridge_source), dtype=torch.float64)
        assert_close(whole[b, : len(tgt)], expected)
        assert_close(torch.stack(steps, 1)[b, : len(tgt)], expected)


def test_gradients_equal_difference_quotients_of_the_papers_equations():
    """The loss of one sentence, and one number of every parameter; labels are arbitrary tokens."""
    model, (src, tgt), labels = make_model("backward"), SENTENCES[0], [5, 3, 6]
    source, target = Source(*padded([src])), Target(*padded([tgt]))
    logits = model.output(model.decode_states(source, target))[0]
    torch.nn.functional.cross_entropy(logits, torch.tensor(labels), reduction="sum").backward()

    def loss():
        positions = log_probs(model, src, tgt, "backward")
        return -sum(position[label] for position, label in zip(positions, labels, strict=True))

    step = 1e-6
    for name, p in model.named_parameters():
        numbers, index = p.data.view(-1), int(p.grad.abs().argmax())
        before, losses = float(numbers[index]), []
        for shift in (step, -step):
            numbers[index] = before + shift
            losses.append(loss())
        numbers[index] = before
        quotient = (losses[0] - losses[1]) / (2 * step)
        assert float(p.grad.view(-1)[index]) == pytest.approx(quotient, rel=1e-5, abs=1e-8), name
