"""Losses (cases.md: LOSS, TOK, GRAD 18-26): label shifts over shard edges, unequal and missing targets, weights, sums, second losses,
metrics. Each form of loss runs on a length that 2, 3 and 4 ranks cut evenly or not, and on ranks without any target."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sharded_runs import Comparison
from small_models import VOCAB, Decoder, shifted_loss, tokens


def case(loss, B=2, S=13, ignored=0, extra=None, **options):
    """loss(model, logits, **batch) -> loss or (loss, others...)"""
    torch.manual_seed(0)
    batch = tokens(B, S, ignored) | (extra or {})

    def forward(m, ids, **rest):
        return loss(m, m(ids), ids=ids, **rest)

    return Comparison(Decoder(1), batch, forward, **options)


def shifted(m, logits, labels, **_):
    return shifted_loss(logits, labels)


def padded_labels(m, logits, labels, **_):
    """As transformers: labels padded by one on the right, then shifted, all logits used."""
    shifted = F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
    return F.cross_entropy(logits.float().view(-1, VOCAB), shifted.view(-1), ignore_index=-100, reduction="mean")


def rolled_labels(m, logits, labels, **_):
    rolled = torch.roll(labels, -1, 1).clone()
    rolled[:, -1] = -100
    return F.cross_entropy(logits.flatten(0, 1), rolled.flatten(), ignore_index=-100)


def already_shifted(m, logits, labels, **_):
    return F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1), ignore_index=-100)


def classes_second(m, logits, labels, **_):
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=-100)


def by_gather(m, logits, labels, **_):
    """Log-softmax and gather, the ignored targets masked by hand."""
    logp, target = F.log_softmax(logits[:, :-1], -1), labels[:, 1:]
    valid = target != -100
    picked = logp.gather(-1, target.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return -(picked * valid).sum() / valid.sum()


def by_logsumexp(m, logits, labels, **_):
    target = labels[:, 1:].clamp(min=0)
    picked = torch.gather(logits[:, :-1], 2, target[..., None])[..., 0]
    return (torch.logsumexp(logits[:, :-1], -1) - picked).mean()


def nll(m, logits, labels, **_):
    return F.nll_loss(F.log_softmax(logits[:, :-1].reshape(-1, VOCAB), 1), labels[:, 1:].reshape(-1), ignore_index=-100)


def one_hot(m, logits, labels, **_):
    target = F.one_hot(labels[:, 1:].clamp(min=0), VOCAB).to(logits.dtype)
    return -(target * logits[:, :-1].log_softmax(-1)).sum(-1).mean()


def summed(m, logits, labels, **_):
    """Megatron's per-token mode: the sum, and the count to divide by later."""
    losses = F.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), labels[:, 1:].reshape(-1), reduction="none", ignore_index=-100)
    return losses.sum(), (labels[:, 1:] != -100).sum()


def sum_reduction(m, logits, labels, **_):
    return shifted_loss(logits, labels, reduction="sum") / 100


def smoothed(m, logits, labels, **_):
    return shifted_loss(logits, labels, label_smoothing=0.1)


def class_weighted(m, logits, labels, **_):
    return shifted_loss(logits, labels, weight=torch.linspace(0.2, 2.0, VOCAB))


def smoothed_class_weighted(m, logits, labels, **_):
    return shifted_loss(logits, labels, weight=torch.linspace(0.2, 2.0, VOCAB), label_smoothing=0.2)


def mean_per_row(m, logits, labels, **_):
    """Mean over each row's own targets, then over rows."""
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none", ignore_index=-100)
    count = (labels[:, 1:] != -100).sum(1).clamp(min=1)
    return (losses.sum(1) / count).mean()


def z_loss(m, logits, labels, **_):
    return shifted_loss(logits, labels) + 1e-2 * torch.logsumexp(logits, -1).pow(2).mean()


def entropy_bonus(m, logits, labels, **_):
    p = logits.softmax(-1)
    return shifted_loss(logits, labels) - 0.1 * -(p * logits.log_softmax(-1)).sum(-1).mean()


def sequence_level(m, logits, labels, **_):
    """DPO: log-sigmoid of the difference of two rows' summed token log-probabilities."""
    logp = logits[:, :-1].log_softmax(-1).gather(-1, labels[:, 1:].clamp(min=0)[..., None])[..., 0]
    rows = (logp * (labels[:, 1:] != -100)).sum(-1)
    return -F.logsigmoid(0.1 * (rows[0::2] - rows[1::2])).mean(), rows


def token_accuracy(m, logits, labels, **_):
    valid = labels[:, 1:] != -100
    right = (logits[:, :-1].argmax(-1) == labels[:, 1:]) & valid
    return shifted_loss(logits, labels), right.sum() / valid.sum(), right.sum(-1)


def several_ahead(m, logits, labels, **_):
    """Multi-token prediction: the same logits against labels 1, 2 and 3 ahead."""
    return sum(F.cross_entropy(logits[:, :-k].reshape(-1, VOCAB), labels[:, k:].reshape(-1), ignore_index=-100) / k for k in (1, 2, 3))


def last_position(m, logits, labels, **_):
    """A classifier on the last token's logits."""
    return F.cross_entropy(logits[:, -1], labels[:, -1])


LOSSES = [
    shifted, padded_labels, rolled_labels, already_shifted, classes_second, by_gather, by_logsumexp, nll, one_hot, summed, sum_reduction,
    smoothed, class_weighted, smoothed_class_weighted, mean_per_row, z_loss, entropy_bonus, sequence_level, token_accuracy, several_ahead,
    last_position,
]  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
def test_form_of_loss(loss):
    """13 positions, the first 6 without target: the first of 4 ranks has none, and shards are uneven."""
    case(loss, ignored=6).check(2, 3, 4)


@pytest.mark.parametrize("S, ranks", [(8, (2, 4, 8)), (16, (2, 3)), (3, (2, 4)), (2, (3,))])
def test_targets_over_shard_edges(S, ranks):
    """Rows 60, 64, 65: also one token a rank, and fewer tokens than ranks."""
    case(shifted, B=1, S=S).check(*ranks)


def test_every_target_has_a_gradient():
    """Row 64: S - 1 positions with a gradient of their logits, whatever the number of ranks."""
    scale = torch.ones(1, 8, 1, requires_grad=True)

    def loss(m, logits, labels, scale, **_):
        return shifted_loss(logits * scale, labels)

    c = case(loss, B=1, S=8, extra=dict(scale=scale))
    for ranks in (1, 2, 4, 8):
        for grads in c.threads(ranks).grads:
            assert int((grads["scale"] != 0).sum()) == 7


@pytest.mark.parametrize("loss", [shifted, by_gather, nll, smoothed, class_weighted], ids=lambda f: f.__name__)
@pytest.mark.parametrize("part", ["second half", "first half", "all"])
def test_ranks_without_targets(loss, part):
    """Row 69: no target in one half, or in any: NaN exactly where the single process has it."""
    labels = tokens(1, 8)["labels"].clone()
    labels[:, {"second half": slice(4, None), "first half": slice(0, 4), "all": slice(None)}[part]] = -100
    case(loss, B=1, S=8, extra=dict(labels=labels)).check(2, 4)


def test_unequal_counts_weigh_tokens():
    """Row 70: 7 and 2 valid targets of 16."""
    labels = tokens(1, 16)["labels"].clone()
    labels[:, 0:2] = -100
    labels[:, 10:] = -100
    case(shifted, B=1, S=16, extra=dict(labels=labels)).check(2)


def test_count_given_by_the_caller():
    """Row 71: the sum divided by num_items_in_batch, a tensor input."""

    def loss(m, logits, labels, num_items_in_batch, **_):
        return shifted_loss(logits, labels, reduction="sum") / num_items_in_batch

    case(loss, B=1, S=32, ignored=7, extra=dict(num_items_in_batch=torch.tensor(25))).check(2, 4)


@pytest.mark.parametrize("shape", [(2, 13), (2, 12), (2, 13, 1), (13,)])
def test_weights_for_each_token(shape):
    """Rows 26, 74: the caller's weights and scales, one a token."""
    weights = torch.rand(shape, generator=torch.Generator().manual_seed(3))

    def loss(m, logits, labels, weights, **_):
        if weights.dim() == 3:
            return shifted_loss(logits * weights, labels)
        losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none")
        return (losses * weights[..., -12:]).sum() / weights[..., -12:].sum()

    case(loss, extra=dict(weights=weights)).check(2, 3)


def test_policy_gradient():
    """A clipped ratio of new to old log-probabilities times advantages, masked, and a KL estimate."""
    gen = torch.Generator().manual_seed(5)
    old, advantages = -torch.rand(2, 12, generator=gen) * 5, torch.randn(2, 12, generator=gen)

    def loss(m, logits, labels, old, advantages, **_):
        logp = logits[:, :-1].log_softmax(-1).gather(-1, labels[:, 1:].clamp(min=0)[..., None])[..., 0]
        ratio = torch.exp(logp - old)
        surrogate = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        kl = torch.exp(old - logp) - (old - logp) - 1
        mask = (labels[:, 1:] != -100).float()
        return -((surrogate - 0.01 * kl) * mask).sum() / mask.sum(), (kl * mask).sum() / mask.sum()

    case(loss, ignored=4, extra=dict(old=old, advantages=advantages)).check(2, 3)


class TwoHeads(nn.Module):
    """Row 23: a second head on the hidden states predicts two ahead, from them and the next token's embedding."""

    def __init__(self):
        super().__init__()
        self.body = Decoder(1)
        self.mix, self.second = nn.Linear(64, 32), nn.Linear(32, VOCAB)

    def forward(self, ids, labels):
        h = self.body.hidden(ids)
        first = shifted_loss(self.body.head(h), labels)
        ahead = self.mix(torch.cat([h[:, :-1], self.body.tokens(ids[:, 1:])], -1))
        second = shifted_loss(self.second(ahead), labels[:, 1:])
        return first + 0.1 * second, first.detach(), second.detach()


def test_second_loss():
    torch.manual_seed(0)
    Comparison(TwoHeads(), tokens(2, 13, 3)).check(2, 3, 4)


def test_two_scalar_losses():
    """Both are differentiated."""
    case(lambda m, logits, labels, **_: (shifted_loss(logits, labels), 0.1 * logits.pow(2).mean())).check(2, 3)


@pytest.mark.parametrize("outputs", ["auto", "whole"])
def test_gradients_through_every_output(outputs):
    c = case(lambda m, logits, labels, **_: (shifted_loss(logits, labels), logits, logits[:, -1]), S=12, through_outputs=True)
    c.check(2, 4, outputs=outputs)


@pytest.mark.parametrize("options", [{}, {"gradients": "partial"}], ids=str)
def test_gradient_modes(options):
    """Rows 18, 21: the sum over ranks of partial gradients, divided by their number, is the whole one."""
    c = case(shifted, ignored=5)
    for ranks in (2, 3):
        run = c.threads(ranks, **options)
        if options.get("gradients") == "partial":
            mean = {n: sum(g[n] for g in run.grads) / ranks for n in run.grads[0]}
            c.compare_grads(mean, f"mean of {ranks} ranks")
        else:
            c.compare(run, ranks)


def test_compiled_graphs():
    case(shifted, ignored=6).check_compiled(3)


def test_compiled_graphs_without_tokens_on_a_rank():
    case(padded_labels, B=1, S=3).check_compiled(4)
