"""How long the same work takes with the code that one would use instead: ours and the rivals in turn, in one
process on one thread.

    python bench/race.py                                  # writes figures/mini/race.csv and fig-race.svg
    python bench/race.py --profile smoke --size quick     # a tenth of it, written beside the runs

Seconds of two runs cannot be compared, but ratios within one run can. Every rival is timed beside our code in
each of several rounds, and each round gives a ratio, rival over ours: two means that the rival takes twice as
long. The table has the median of the rounds, with the minimum and the maximum.
"""
import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from scipy.stats import bootstrap
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits
from torch import nn

from modit.block import TimeEmbedding, attention_mask
from modit.flow import generate
from modit.index.engines import neighbours_found
from modit.model import init_zero_layers, new_model
from modit.pretrain import continuation_loss, continuation_rows
from modit.repro.report.looks import BLUE, DARK, GREY, VERMILLION, Look, legend_of, save_figure, whisker
from modit.repro.report.report import figures_dir, kernels
from modit.stats import paired_bootstrap, resample_counts
from modit.retrieval import VectorIndex, faiss, in_chunks
from modit.settings import load_settings
from modit.sphere import normalize, sample_sphere, to_tangent
from modit.store import atomic_write, runs_dir, stream


def product_only(items, queries, tile=1024):
    "A bound: the product of queries and items in tiles that fit the cache; its result is not used."
    out = torch.empty(len(queries), tile)
    for i in range(0, len(items) - tile + 1, tile): torch.mm(queries, items[i:i + tile].T, out=out)


def interleaved(
    calls,    # name -> the function to time
    rounds=7, # timed calls of each
) -> dict:    # name -> (rounds,) seconds of process time
    "Times of several calls that take turns, after a turn to warm up."
    names, times = list(calls), {name: [] for name in calls}
    for f in calls.values(): f()
    for i in range(rounds):
        first = i % len(names)
        for name in names[first:] + names[:first]:
            start = time.process_time()
            calls[name]()
            times[name].append(time.process_time() - start)
    return {name: np.array(taken) for name, taken in times.items()}


def race_row(
    what,    # the work, ours and the rival
    ours,    # (rounds,) seconds
    rival,   # (rounds,) seconds, or None where it is not installed
    note='', # remark
) -> dict:   # what, ours_ms, rival_ms, ratio, low, high, note
    "Median, least and greatest ratio of the rival's time over ours."
    ratio = (np.nan*ours if rival is None else rival)/ours
    return dict(what=what, ours_ms=1e3*np.median(ours), rival_ms=1e3*np.median(ratio*ours),
                ratio=np.median(ratio), low=ratio.min(), high=ratio.max(), note=note)


def made_items(
    n,       # items
    dim,     # of an item
    rng,     # NumPy generator
    each=400, # items of a group
) -> np.ndarray: # (n, dim) float32, unit rows; item i is of group i mod groups
    "Items around the centres of groups."
    groups = max(4, n//each)
    centres = normalize(rng.standard_normal((groups, dim), dtype=np.float32))
    items = rng.standard_normal((n, dim), dtype=np.float32)
    for i, j in in_chunks(n):
        spread = .8*normalize(items[i:j])
        items[i:j] = normalize(centres[np.arange(i, j) % groups] + spread)
    return items


def made_queries(
    items,    # of `made_items`
    many,     # queries
    rng,      # NumPy generator
    each=400, # items of a group
) -> np.ndarray: # (many, dim) float32, unit rows
    "Means of ten items of a group, moved along the first item."
    groups = max(4, len(items)//each)
    picked = rng.integers(groups, size=(many, 1)) + groups*rng.integers(len(items)//groups, size=(many, 10))
    return normalize(normalize(items[picked].mean(1)) + .3*items[0])


def by_faiss(
    items, # (n, d) unit
):         # (queries, k) -> ids
    "FAISS's exact index with its default settings."
    code = 'import faiss; print(faiss.cvar.distance_compute_blas_threshold)'
    fresh = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    index = faiss.IndexFlatIP(items.shape[1])
    index.add(items)
    def search(queries, k):
        ours = faiss.cvar.distance_compute_blas_threshold
        faiss.cvar.distance_compute_blas_threshold = int(fresh.stdout)
        try: return index.search(queries, k)[1]
        finally: faiss.cvar.distance_compute_blas_threshold = ours
    return search


def _tensors(*arrays): return [torch.from_numpy(x) for x in arrays]
def by_torch(items): return lambda q, k: torch.mm(*_tensors(q, items.T)).topk(k).indices.numpy() # -> ids


def by_sklearn(
    items, # (n, d) unit
):         # (queries, k) -> ids
    "scikit-learn's brute-force neighbours."
    fitted = NearestNeighbors(algorithm='brute').fit(items)
    return lambda queries, k: fitted.kneighbors(queries, k, return_distance=False)


def _usearch(): return import_module('usearch.index') if find_spec('usearch') else None


def by_usearch(
    items, # (n, d) unit
):         # (queries, k) -> ids, or None where usearch is not installed
    "usearch's exact search, on one thread."
    library = _usearch()
    if library is None: return None
    exactly = partial(library.search, metric=library.MetricKind.IP, exact=True, threads=1)
    return lambda queries, k: exactly(items, queries, k).keys.astype(np.int64)


def by_usearch_graph(
    items, # (n, d) unit
):         # (queries, k) -> ids, or None where usearch is not installed
    "usearch's neighbourhood graph with its default settings, made and searched on one thread."
    library = _usearch()
    if library is None: return None
    graph = library.Index(ndim=items.shape[1], metric=library.MetricKind.IP, dtype='f32')
    graph.add(np.arange(len(items)), items, threads=1)
    return lambda queries, k: graph.search(queries, k, threads=1).keys.astype(np.int64)


@contextmanager
def own_store():
    "A context in which files beside the runs go to a temporary folder."
    kept = os.environ.get('MODIT_RUNS')
    with tempfile.TemporaryDirectory(prefix='modit') as folder:
        os.environ['MODIT_RUNS'] = folder
        try: yield folder
        finally:
            if kept is None: del os.environ['MODIT_RUNS']
            else: os.environ['MODIT_RUNS'] = kept


BOUND = 'the product alone' # no rival: the lower bound of any search


def entrants(
    items, # (n, d) unit
) -> tuple[dict, dict]: # name -> (queries, k) -> ids, or None; name -> seconds that it took to open
    "Ours, flat and ivf, every rival, and the product that exact search needs, on the same items."
    x = torch.from_numpy(items)
    makers = {'flat': lambda x: VectorIndex(x), 'ivf': lambda x: VectorIndex(x, 'ivf'),
              'FAISS by default': by_faiss, 'scikit-learn': by_sklearn, 'torch topk': by_torch,
              'usearch, exact': by_usearch, 'usearch, graph': by_usearch_graph}
    found, took = {}, {}
    for name, make in makers.items():
        start = time.process_time()
        found[name] = make(items)
        took[name] = time.process_time() - start
    for name in ('flat', 'ivf'): found[name] = lambda q, k, search=found[name].search: search(q, k)[1]
    found[BOUND] = lambda q, k: product_only(x, torch.from_numpy(q))
    return found, took


def _said(pair, found, took):
    both = [f'{found.get(x, np.nan):.3f}' for x in pair], [f'{took[x]:.2f} s' for x in pair]
    recall, made = (' against '.join(words) for words in both)
    return f'recall {recall}; made in {made}' if pair[1] in found else 'not installed'


def race_labelling(
    n,        # items
    dim,      # of an item
    k=50,     # neighbours
    many=256, # queries: a block of ours
    rounds=7, # of the race
) -> list:    # of rows
    "Flat and ivf against every rival on the same queries."
    rng = stream(0, 'race', n, dim)
    items = made_items(n, dim, rng)
    queries = made_queries(items, many, rng)
    with own_store(): searches, took = entrants(items)
    times = interleaved({name: partial(f, queries, k) for name, f in searches.items() if f}, rounds)
    exact = searches['flat'](queries, k)
    answers = {name: searches[name](queries, k) for name in times if name != BOUND}
    found = {name: neighbours_found(ids, exact).mean() for name, ids in answers.items()}
    rivals = [name for name in searches if name not in ('flat', 'ivf', BOUND)]
    def row(pair, note):
        what = f'{" against ".join(pair)}, {n:,} x {dim}'
        return race_row(what, times[pair[0]], times.get(pair[1]), note)
    met = [row((ours, name), _said((ours, name), found, took)) for ours in ('flat', 'ivf') for name in rivals]
    return [row(('flat', BOUND), 'a bound, no rival'), *met]


ONE, ENCODER = 'the same weights in one sequence', 'nn.TransformerEncoder'


def one_sequence(
    model,        # a MODiT
    items,        # (B, m, d) condition
    z,            # (B, T, d) points on the paths
    t,            # (B or 1, T) their times
    position,     # (T,) their places
    valid=None,   # as of a MODiT; all here
    visible=None, # as of a MODiT; all here
):                # (B, T, d) velocities
    "The velocities of a MODiT from one masked sequence, without a cache."
    B, m = items.shape[:2]
    x = torch.cat([model.condition_tokens(items), model.target_tokens(z, position)], 1)
    mask = attention_mask(torch.ones(B, m, dtype=torch.bool), position)
    features = F.silu(model.time(t))
    time = F.pad(model.shared(features), (0, 0, m, 0)).chunk(6, -1)
    for block in model.blocks:
        shift, gain, *rest = block.modulation(time)
        q, k, v = block.project(F.layer_norm(x, x.shape[-1:])*gain + shift)
        x = block.finish(x, F.scaled_dot_product_attention(q, k, v, attn_mask=mask), *rest)
    return model.velocity(x[:, None, m:], features[:, None], z)


class PlainTransformer(nn.Module):
    """The velocity from `torch.nn.TransformerEncoder` under the same mask, with as many weights as a MODiT.

    The time is added to a target's token. Modulation by time, about a sixth of the weights, is lacking, so
    the hidden layer of the time's network is wider, which costs nothing for a token of the condition."""
    def __init__(self,
        s,      # Settings: dim, width, depth, heads, seq_len
        hidden, # units of the network of the time
    ):
        super().__init__()
        W, self.dim = s.width, s.dim
        self.embed_item, self.embed_noised = nn.Linear(s.dim, W), nn.Linear(s.dim, W)
        self.head = nn.Linear(W, s.dim)
        self.place = nn.Parameter(.02*torch.randn(s.seq_len, W))
        self.features = TimeEmbedding(W)
        self.features.mlp = nn.Sequential(nn.Linear(W, hidden), nn.SiLU(), nn.Linear(hidden, W))
        layer = nn.TransformerEncoderLayer(W, s.heads, 4*W, 0., 'gelu', batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, s.depth, nn.LayerNorm(W), enable_nested_tensor=False)

    def forward(self, items, z, t, position, valid=None, visible=None): # as of a MODiT -> (B, T, d)
        m, scale = items.shape[1], self.dim**.5
        target = self.embed_noised(z*scale) + self.place[position] + self.features(t)
        x = torch.cat([self.embed_item(items*scale) + self.place[:m], target], 1)
        mask = attention_mask(torch.ones(1, m, dtype=torch.bool), position)[0, 0]
        return to_tangent(z, self.head(self.layers(x, ~mask)[:, m:]))


def weights_of(model): return sum(p.numel() for p in model.parameters()) # how many


def plain_transformer(
    s, # Settings
) -> PlainTransformer:
    "A plain transformer with as many weights as `new_model(s)`, up to one hidden unit of the time network."
    wanted, (none, one) = weights_of(new_model(s)), [weights_of(PlainTransformer(s, h)) for h in (1, 2)]
    hidden = max(1, 1 + round((wanted - none)/(one - none)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(s.seed)
        return PlainTransformer(s, hidden)


@torch.no_grad()
def generate_plainly(
    velocity, # (items, z, t, place) -> velocities
    items,    # (B, m, d) condition
    noise,    # (B, T, d) unit noise, one row a candidate
    scale,    # (T,) guidance scales
    steps=8,  # of the integration
):            # (B, T, d) queries
    "Guided queries, one pass per candidate and step, without a cache."
    place, found = torch.tensor([items.shape[1]]), []
    for j in range(noise.shape[1]):
        z = noise[:, j:j + 1]
        for i in range(steps):
            t = torch.full(z.shape[:2], i/steps)
            without = velocity(items[:, :0], z, t, place)
            z = normalize(z + (without + scale[j]*(velocity(items, z, t, place) - without))/steps)
        found.append(z)
    return torch.cat(found, 1)


def _weights(ours, theirs): return f'{weights_of(ours):,} weights against {weights_of(theirs):,}'


def race_serving(
    s,        # Settings
    many=64,  # prefixes
    rounds=7, # of the race
) -> list:    # of rows
    "Serving prefixes at one guidance scale, and at the scales that make candidates."
    model, plain = init_zero_layers(new_model(s)), plain_transformer(s).eval()
    rng, rows = stream(s.seed, 'race'), []
    models = {ONE: model, ENCODER: plain}
    velocities = {ONE: partial(one_sequence, model), ENCODER: plain}
    plainly = partial(generate_plainly, steps=s.ode_steps)
    items = sample_sphere(rng, (many, s.prefix_len, s.dim))
    for what, scales in dict(serving=[s.guidance_scale], candidates=[*s.guidance_scales]).items():
        scale, noise = torch.tensor(scales, dtype=torch.float), sample_sphere(rng, (many, len(scales), s.dim))
        calls = {name: partial(plainly, v, items, noise, scale) for name, v in velocities.items()}
        ours = partial(generate, model, items, noise, scale, s.ode_steps)
        times = interleaved(dict(ours=ours, **calls), rounds)
        for name in calls:
            note = f'{many} prefixes of {s.prefix_len}, scales {scales}; {_weights(model, models[name])}'
            rows.append(race_row(f'{what} against {name}', times['ours'], times[name], note))
    return rows


def race_training(
    s,        # Settings
    rounds=7, # of the race
) -> list:    # of rows
    "A step of continuation training against the two plain models."
    rng, model, plain = stream(s.seed, 'race'), new_model(s), plain_transformer(s)
    rows = continuation_rows(sample_sphere(rng, (s.batch, s.seq_len, s.dim)).numpy(), s, rng, dropout=0.)
    def step(velocity, weights):
        optimiser = torch.optim.AdamW(weights.parameters(), 1e-4, fused=True)
        def run():
            continuation_loss(velocity, rows).backward()
            optimiser.step()
            optimiser.zero_grad()
        return run
    same = new_model(s)
    rivals = {ONE: step(partial(one_sequence, same), same), ENCODER: step(plain, plain)}
    times = interleaved(dict(ours=step(model, model), **rivals), rounds)
    what = f'{s.batch} sequences of {s.seq_len}'
    notes = {ONE: f'{what}; {_weights(model, same)}', ENCODER: f'{what}; {_weights(model, plain)}'}
    return [race_row(f'training step against {x}', times['ours'], times[x], notes[x]) for x in rivals]


def by_scipy(
    values,    # (n, c) differences, one column per contrast
    resamples, # B
    rng,       # NumPy generator
):             # low (c,), high (c,)
    "Percentile intervals of the means by `scipy.stats.bootstrap`."
    more = dict(n_resamples=resamples, batch=100, method='percentile', rng=rng)
    return bootstrap((values.T,), np.mean, axis=1, vectorized=True, **more).confidence_interval


def race_bootstrap(
    resamples=10_000, # B
    rounds=7,         # of the race
) -> list:            # of a row
    "Intervals of 24 contrasts of 500 cases, against scipy, which gives no p-value beside them."
    values = stream(0, 'race').normal(size=(500, 24))
    def ours(): paired_bootstrap(values, None, resample_counts(500, resamples, stream(0, 'race counts')))
    def rival(): by_scipy(values, resamples, stream(0, 'race scipy'))
    times, note = interleaved(dict(ours=ours, rival=rival), rounds), f'500 cases, {resamples:,} resamples'
    return [race_row('bootstrap of 24 contrasts against scipy', times['ours'], times['rival'], note)]


SIZES = dict(full=((240_000, 48), (60_000, 384)), quick=((24_000, 48), (6_000, 384)), toy=((2000, 16),))


def measured_dir(s, size): return figures_dir(s) if size == 'full' else runs_dir()/'bench'/s.profile/size


def race(
    s,           # Settings: those of the model that is raced
    size='full', # of the race: full, quick or toy
    rounds=7,    # timed calls of each competitor
) -> pd.DataFrame: # what, ours_ms, rival_ms, ratio, low, high, note, processor
    "All comparisons in one run on one thread."
    torch.set_num_threads(1)
    with threadpool_limits(1):
        rows = [row for n, dim in SIZES[size] for row in race_labelling(n, dim, rounds=rounds)]
        rows += race_serving(s, rounds=rounds) + race_training(s, rounds)
        rows += race_bootstrap(s.resamples, rounds)
    return pd.DataFrame(rows).assign(processor=kernels()['processor'])


def behind(
    table, # of `race`
) -> pd.DataFrame: # what, ratio, low, high, note: the worst first
    "Rows in which the rival was faster."
    slower = table[(table.ratio < 1) & ~table.what.str.contains(BOUND)]
    return slower[['what', 'ratio', 'low', 'high', 'note']].sort_values('ratio', ignore_index=True)


PLACES = (Look('faster', BLUE), Look('either, by round', GREY, 'o', False), Look('slower', VERMILLION, 'X'),
          Look('share of a bound', DARK, 'D'))


def draw_race(
    table, # of `race`
): # Figure
    "Every ratio with its range over the rounds."
    fig, ax = plt.subplots(figsize=(7.5, .19*len(table) + .9))
    for y, row in enumerate(table.itertuples()):
        seen = PLACES[3 if BOUND in row.what else 0 if row.low > 1 else 2 if row.high < 1 else 1]
        if np.isnan(row.ratio): ax.text(1, y, ' not installed', va='center', fontsize=7)
        else: whisker(ax, y, row.ratio, row.low, row.high, seen, 'x')
    ax.axvline(1, color=DARK, lw=.8)
    ax.set(xscale='log', xlabel='time of the rival over ours', ylim=(len(table) - .5, -.5))
    ax.set_yticks(range(len(table)), table.what)
    fig.legend(handles=legend_of(*PLACES), title='ours is', loc='outside upper center', ncols=4)
    return fig


def write_race(
    s,           # Settings
    size='full', # of the race
) -> pd.DataFrame:
    "Run all comparisons, and write the table and its figure."
    table, folder = race(s, size), measured_dir(s, size)
    atomic_write(folder/'race.csv', table.to_csv(index=False, float_format='%.4g', lineterminator='\n'))
    save_figure(folder, 'fig-race', draw_race(table))
    plt.close()
    return table


def asked(sizes, about):
    "The settings and the size that a command line asks for."
    parser = ArgumentParser(description=about.partition('\n\n')[0])
    parser.add_argument('--profile', default='mini', help='of settings.ini')
    parser.add_argument('--size', default='full', choices=sizes, help='full is what is committed')
    words = parser.parse_args()
    return load_settings(words.profile), words.size


if __name__ == '__main__': print(behind(write_race(*asked(SIZES, __doc__))).to_string(index=False))
