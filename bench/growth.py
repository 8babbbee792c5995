"""How time and memory of a unit of work grow with items, dimensions and the length of a sequence: exponents.

    python bench/growth.py                                # writes figures/mini/growth.csv and fig-growth.svg
    python bench/growth.py --profile smoke --size quick   # smaller sizes, written beside the runs

An interrupted run continues where it stopped. An exponent is more useful than a number of seconds, because it
is nearly the same on another machine. Each point runs in a process of its own, whose peak is its memory.
"""
import re
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from race import asked, made_items, made_queries, measured_dir, own_store
from tqdm import tqdm

from modit.repro.bench.bench import seconds
from modit.flow import generate
from modit.index.audit import neighbours_found
from modit.model import init_zero_layers, new_model
from modit.patterns import find_patterns
from modit.pretrain import continuation_loss, continuation_rows
from modit.repro.report.looks import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION
from modit.repro.report.looks import Look, legend_of, save_figure
from modit.repro.report.report import kernels
from modit.retrieval import VectorIndex
from modit.settings import require
from modit.sphere import sample_sphere
from modit.store import atomic_write, stream

INDEXES = ('flat', 'ivf', 'ivf_disk', 'hnsw') # whose lists, graphs and queries are measured
AXES = ('items', 'dim', 'length')             # along which a point can grow
PROCESSOR = kernels()['processor']


class Point(NamedTuple):
    "A measurement: what is measured, and at which size."
    case: str       # an index, patterns, generation or training
    items: int = 0  # to be searched, or put into patterns
    dim: int = 48   # of an embedding
    length: int = 0 # of a sequence, L


def peak_memory() -> float: # MB
    "The peak memory of this process so far: getrusage inherits on Linux that of the starting process."
    try: kept = re.search(r'VmHWM:\s*(\d+) kB', Path('/proc/self/status').read_text())
    except OSError: kept = None
    unit = 2**20 if sys.platform == 'darwin' else 2**10 # getrusage counts bytes there
    return int(kept[1])/2**10 if kept else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss/unit


def measure_index(
    point,    # Point
    s,        # Settings: none is read
    many=256, # queries
    k=50,     # neighbours
) -> list:    # of dicts: work, seconds, memory_mb, recall, error
    """Building an index, and labelling a query with it: a tenth of the items have the attribute.

    Recall is the share of the true neighbours found, error that of the label. The exact answer comes last, so
    that it takes no part in the memory."""
    rng, before = stream(0, 'growth', point.items, point.dim), peak_memory()
    items, k = made_items(point.items, point.dim, rng), min(k, point.items//4)
    queries = made_queries(items, many, rng)
    start = time.process_time()
    index = VectorIndex(items, point.case)
    built, held = time.process_time() - start, peak_memory() - before
    search = partial(index.search, queries, k)
    row = dict(work='a query', seconds=seconds(search, 3)/many, memory_mb=peak_memory() - before)
    ids = search()[1]
    exact = ids if point.case == 'flat' else index.with_engine('flat').search(queries, k)[1]
    along = items @ items[0]
    label, true = ((along[x] > np.quantile(along, .9)).mean(1) for x in (ids, exact))
    row |= dict(recall=neighbours_found(ids, exact).mean(), error=np.abs(label - true).mean())
    return [dict(work='an index', seconds=built, memory_mb=held), row]


def measure_patterns(
    point,        # Point
    s,            # Settings: seed
    patterns=100, # number of patterns; fewer if there are few items
) -> list:        # of a dict: work, seconds, memory_mb
    "k-means over the positives of a corpus, and the pattern of every item."
    rng, before = stream(0, 'growth', point.items, point.dim), peak_memory()
    items = made_items(point.items, point.dim, rng)
    attribute = rng.random(len(items)) < .1
    patterns = min(patterns, max(2, point.items//400))
    start = time.process_time()
    find_patterns(items, attribute, patterns, s.seed)
    return [dict(work='a corpus', seconds=time.process_time() - start, memory_mb=peak_memory() - before)]


def measure_generation(
    point,   # Point
    s,       # Settings: those of the model
    many=64, # prefixes served together
) -> list:   # of a dict: work, seconds, memory_mb
    "A guided query from a prefix."
    s, rng, before = replace(s, dim=point.dim, seq_len=point.length), stream(0, 'growth'), peak_memory()
    model = init_zero_layers(new_model(s))
    items = sample_sphere(rng, (many, 3*point.length//4, s.dim))
    noise = sample_sphere(rng, (many, 1, s.dim))
    spent = seconds(partial(generate, model, items, noise, s.guidance_scale, s.ode_steps), 3)
    return [dict(work='a query', seconds=spent/many, memory_mb=peak_memory() - before)]


def measure_training(
    point, # Point
    s,     # Settings: those of the model and the batch
) -> list: # of a dict: work, seconds, memory_mb
    "A step of continuation training, forward, backward and update."
    s, rng, before = replace(s, dim=point.dim, seq_len=point.length), stream(0, 'growth'), peak_memory()
    model = new_model(s)
    rows = continuation_rows(sample_sphere(rng, (s.batch, s.seq_len, s.dim)).numpy(), s, rng)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    def step():
        continuation_loss(model, rows).backward()
        optimiser.step()
        optimiser.zero_grad()
    return [dict(work='a step', seconds=seconds(step, 3), memory_mb=peak_memory() - before)]


def measure(
    point, # Point
    s,     # Settings
) -> list: # of dicts, a row each
    "Measure a point in this process; raises `ValueError` for an unknown case."
    cases = dict.fromkeys(INDEXES, measure_index)
    cases |= dict(patterns=measure_patterns, generation=measure_generation, training=measure_training)
    require(point.case in cases, f'case {point.case!r} is unknown; use one of {", ".join(cases)}')
    torch.set_num_threads(1)
    with own_store(): return cases[point.case](point, s)


def measure_apart(
    point, # Point
    s,     # Settings of a profile
) -> list: # of dicts, a row each
    "Measure a point in a separate process; raises `ValueError` naming the point if that fails."
    with ProcessPoolExecutor(1, get_context('fork')) as pool:
        try: return pool.submit(measure, point, s).result()
        except (ValueError, BrokenProcessPool) as e:
            raise ValueError(f'{point} has failed ({e}); what was measured is kept') from None


def read_growth(
    path, # growth.csv
) -> pd.DataFrame: # measured so far, on this processor
    "The rows of a file to continue; raises `ValueError` for a damaged file or one of another machine."
    names = [*Point._fields, 'work', 'seconds', 'memory_mb', 'recall', 'error', 'processor']
    if not path.exists(): return pd.DataFrame(columns=names)
    try: table = pd.read_csv(path)
    except ValueError as e: raise ValueError(f'{path.name} is damaged ({e}); delete the file') from None
    require([*table] == names, f'{path.name} has other columns; delete the file')
    other = sorted({*table.processor} - {PROCESSOR})
    require(not other, f'{path.name} is of {", ".join(other)}, this is {PROCESSOR}; delete the file')
    return table


def grow(
    points,                # to be measured, of `points_of`
    s,                     # Settings of a profile
    path,                  # growth.csv
    measure=measure_apart, # function of (point, settings) -> rows
) -> pd.DataFrame:         # one row per point and unit of work
    "Measure the points that the file lacks, and save after each point."
    table = read_growth(path)
    for point in tqdm(points, 'growth', disable=None): # shown in a terminal
        if (table[list(Point._fields)] == list(point)).all(axis=1).any(): continue
        facts = dict(point._asdict(), processor=PROCESSOR)
        rows = pd.DataFrame([facts | row for row in measure(point, s)]).reindex(columns=table.columns)
        table = rows if table.empty else pd.concat([table, rows], ignore_index=True)
        atomic_write(path, table.to_csv(index=False, float_format='%.6g', lineterminator='\n'))
    return table


class Sizes(NamedTuple):
    "The values along each axis."
    items: tuple   # of an index with lists or without, and of a corpus
    graph: tuple   # items of a graph
    dims: tuple    # of an embedding
    lengths: tuple # of a sequence


SIZES = dict(
    full=Sizes((100_000, 400_000, 1_000_000, 4_000_000), (25_000, 50_000, 100_000, 200_000),
               (48, 96, 192, 384, 768), (16, 40, 80, 200)),
    quick=Sizes((10_000, 20_000, 40_000), (2500, 5000, 10_000), (48, 96, 192), (16, 32, 64)),
    toy=Sizes((400, 800, 1600), (400, 800, 1600), (8,), (8, 16, 32)))


def points_of(
    sizes, # Sizes
) -> list: # of Points, none twice
    "Every case along its axes."
    first, found = sizes.dims[0], []
    for case in (*INDEXES, 'patterns'):
        items = sizes.graph if case == 'hnsw' else sizes.items
        found += [Point(case, n, first) for n in items]
        if case in INDEXES: found += [Point(case, items[0], d) for d in sizes.dims[1:]]
    for case in ('generation', 'training'):
        found += [Point(case, 0, first, L) for L in sizes.lengths]
        found += [Point(case, 0, d, sizes.lengths[0]) for d in sizes.dims[1:]]
    return found


def exponent(
    x, # (n,) sizes
    y, # (n,) seconds or MB
) -> tuple: # b, its standard error; NaN where there are too few points
    """Slope of the least-squares line through the logarithms, points that are not positive left out.

    The standard error shows only how well a line fits. If a fixed cost dominates at one end and a product at
    the other, the curve bends, and b is a mean slope between the two."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    good = (x > 0) & (y > 0)
    x, y, n = np.log(x[good]), np.log(y[good]), good.sum()
    if len(np.unique(x)) < 2: return np.nan, np.nan
    x, y = x - x.mean(), y - y.mean()
    b = x @ y/(x @ x)
    return b, np.sqrt(np.square(y - b*x).sum()/(n - 2)/(x @ x)) if n > 2 else np.nan


def along(
    rows, # of one case and one kind of work
    axis, # items, dim or length
) -> pd.DataFrame: # rows in order of the axis, those that lie along it
    "The measurements along one axis."
    for other in set(AXES) - {axis}: rows = rows[rows[other] == rows[other].min()]
    return rows.sort_values(axis)


def exponents(
    table, # of `grow`
) -> pd.DataFrame: # case, work, axis, points, time, time_se, memory, memory_se
    "Exponents of time and memory of every unit of work along every axis with at least three points."
    found = []
    for (case, work), rows in table.groupby(['case', 'work'], sort=False):
        for axis in AXES:
            line = along(rows, axis)
            if line[axis].nunique() < 3: continue
            time, time_se = exponent(line[axis], line.seconds)
            memory, memory_se = exponent(line[axis], line.memory_mb)
            found.append(dict(case=case, work=work, axis=axis, points=len(line), time=time, time_se=time_se,
                              memory=memory, memory_se=memory_se))
    return pd.DataFrame(found)


CASES = dict(flat=Look('index flat', BLACK), ivf=Look('index ivf', BLUE, '^'),
             ivf_disk=Look('index ivf on disk', ORANGE, 's'), hnsw=Look('index hnsw', GREEN, 'D'),
             patterns=Look('patterns of a corpus', GREY, 'v'),
             generation=Look('a generated query', PURPLE, 'P'),
             training=Look('a training step', VERMILLION, 'X'))

STYLES = {'one query, corpus or step': '-', 'building an index': ':'}
NAMES = dict(items='items', dim='dimensions of an item', length='items of a sequence')
PANELS = (('items', 'seconds', 'time, s'), ('items', 'memory_mb', 'memory, MB'),
          ('dim', 'seconds', 'time, s'), ('length', 'seconds', 'time, s'))


def mark_measured(
    ax,    # matplotlib Axes
    lines, # in it
):
    "Ticks where something was measured, for axes that span little more than a power of ten."
    values = sorted({int(x) for line in lines for x in line.get_xdata()})
    ax.set_xticks(values, values)
    ax.minorticks_off()


def draw_growth(
    table, # of `grow`
): # Figure
    "Time and memory of a unit of work along every axis, on logarithmic scales."
    fig, axes = plt.subplots(2, 2, figsize=(7.5, 5.2))
    for ax, (axis, value, said) in zip(axes.flat, PANELS, strict=True):
        for (case, work), rows in table.groupby(['case', 'work'], sort=False):
            line, seen = along(rows, axis), CASES[case]
            if line[axis].nunique() < 2: continue
            style = STYLES['building an index'] if work == 'an index' else '-'
            ax.plot(line[axis], line[value], style, c=seen.colour, marker=seen.marker)
        ax.set(xscale='log', yscale='log', xlabel=NAMES[axis], ylabel=said)
        if axis != 'items': mark_measured(ax, ax.lines)
    lines = [plt.Line2D([], [], c='0.3', ls=style, label=word) for word, style in STYLES.items()]
    fig.legend(handles=legend_of(*CASES.values()) + lines, loc='outside upper center', ncols=3)
    return fig


def write_growth(
    s,           # Settings of a profile
    size='full', # full, quick or toy
) -> pd.DataFrame:
    "Measure missing points, write the table and its figure."
    folder = measured_dir(s, size)
    table = grow(points_of(SIZES[size]), s, folder/'growth.csv')
    save_figure(folder, 'fig-growth', draw_growth(table))
    plt.close()
    return table


if __name__ == '__main__':
    print(exponents(write_growth(*asked(SIZES, __doc__))).round(2).to_string(index=False))
