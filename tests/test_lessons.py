"Losses that learn from labelled lists: what each of them may see, against counts and formulas by hand."
from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import corpus_of
from modit.repro.ours.credit import counted
from modit.repro.lib.lessons import (batch_of, by_best, by_contrast, moved, retrieved,
                                           served, strict_looks, to_best, to_items, to_pairs, usual)
from modit.flow import unconditional_velocity
from modit.model import init_zero_layers, new_model
from modit.ordering import training_cases
from modit.patterns import ROLES
from modit.settings import load_settings
from modit.sphere import angle, geodesic, weighted_error
from modit.store import stream

S = load_settings('smoke', hppo_batch=8, direct_tail=0.)


@pytest.fixture(scope='module')
def corpus(): return corpus_of('D3', S)


@pytest.fixture(scope='module')
def model():
    made = new_model(S)
    init_zero_layers(made)
    return made


@pytest.fixture(scope='module')
def lists(corpus, model):
    cases = training_cases(corpus, 40, S, 'hppo', 1)
    looks = strict_looks(corpus, S)
    pool = retrieved(usual(model, corpus, cases, S), cases, looks, S)
    return pool.beside(retrieved(moved(corpus, cases, (.3, .6), (.2, .6)), cases, looks, S))


@pytest.fixture(scope='module')
def rows(lists, corpus): return batch_of(lists, corpus, S, stream(0, 'rows'), every=True)


def test_no_list_holds_an_item_whose_label_is_held_out(lists, corpus):
    roles = [ROLES[i] for i in np.unique(corpus.role[lists.ids])]
    assert set(roles) <= {'train', 'other'}
    assert np.isin(corpus.role, [ROLES.index(x) for x in ('item', 'pattern')]).any()


def test_the_best_candidate_is_the_one_with_most_wanted_items(rows, corpus, model):
    counts = rows['right'].sum(2)
    assert torch.equal(counts.gather(1, rows['winner'][:, None])[:, 0], counts.max(1).values)
    others = torch.arange(counts.shape[1]) != rows['winner'][:, None]
    shuffled = rows['targets'].clone()
    shuffled[:, :-1][others] = torch.roll(shuffled[:, :-1][others], 1, 0)
    for loss in (by_best, to_best):  # the other candidates do not matter
        known, other = (loss(model, x, model, corpus, S) for x in (rows, rows | dict(targets=shuffled)))
        assert torch.isclose(known, other, atol=1e-6)


def test_an_item_of_several_lists_counts_once(rows, corpus, model):
    again = rows | {name: torch.cat([rows[name], rows[name]], 1) for name in ('ids', 'right')}
    once, twice = (to_items(model, x, model, corpus, S) for x in (rows, again))
    assert torch.isclose(once, twice, atol=1e-6)


def test_pairs_in_the_space_of_queries_rank_by_the_served_query(rows, corpus, model):
    start = new_model(S)
    loss = to_pairs(model, rows, start, corpus, S)
    gaps = []
    for x, sign in ((model, 1), (start, -1)):
        near = (rows['targets'][:, :-1] @ served(x, rows, S)[:, :, None])[..., 0]
        gaps.append(sign*160*(near.gather(1, rows['winner'][:, None]) - near))
    by_hand = torch.log1p(torch.exp(-sum(gaps).double()))[rows['losers']].mean()
    assert rows['losers'].any() and torch.isclose(loss.double(), by_hand, rtol=1e-4)


def test_the_contrast_is_the_printed_formula_of_diffusion_nft(rows, corpus, model):
    start = new_model(S)
    targets = rows['targets'][:, :-1]
    r = rows['joint'].float() - rows['joint'].float().mean(1, keepdim=True)
    r = .5 + .5*(r/r.std()).clamp(-1, 1)
    total = 0.
    place = torch.tensor([S.prefix_len])
    for j in range(targets.shape[1]):
        for draw in range(S.hppo_draws):
            t, noise = rows['t'][:, [draw]], rows['noise'][:, [draw]]
            z, u = geodesic(noise, targets[:, [j]], t)
            new, old = (x(rows['prefix'], z, t, place) for x in (model, start))
            without = unconditional_velocity(model, z, t, place)
            far = angle(noise, targets[:, [j]])
            for share, v in ((r[:, j], new), (1 - r[:, j], 2*old - new)):
                error = without + S.score_scale*(v - without) - u
                total = total + (share*weighted_error(error, z, u, t, far, S.jacobi)[:, 0]).mean()
    assert torch.isclose(by_contrast(model, rows, start, corpus, S), total/S.hppo_draws, rtol=1e-4)


def test_without_a_clear_winner_every_worse_candidate_is_a_loser(lists, corpus, model):
    rows = batch_of(lists, corpus, replace(S, margin=2.), stream(0, 'none'))
    worse = rows['joint'] < rows['joint'].max(1, keepdim=True).values
    assert torch.equal(rows['losers'], worse) and worse.any(1).all()
    assert torch.isfinite(to_pairs(model, rows, model, corpus, S))


def test_further_items_are_counted_without_known_positives(corpus):
    cases = training_cases(corpus, 12, S, 'hppo', 1)
    queries = corpus.items[cases.sequence[:, 0]]
    found = counted(queries, corpus, cases, S)
    known = np.isin(corpus.role, [ROLES.index(x) for x in ('train', 'other')])
    for i, row in enumerate(found.itertuples()):
        order = np.argsort(-(corpus.items @ queries[i]), kind='stable')
        order = order[~np.isin(order, cases.sequence[i])]
        right = corpus.attribute & (corpus.pattern == cases.pattern[i])
        rest = order[~(known & corpus.attribute)[order]]
        by_hand = [right[order[:S.k]].mean(), (right & ~known)[order[:S.k]].mean(), right[rest[:S.k]].mean()]
        assert np.allclose([row.joint, row.held, row.further], by_hand, atol=1.01/S.k)
