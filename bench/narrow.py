"""What items in fewer bits cost a served list: memory, disk, and the share of the exact list that is found.

    python bench/narrow.py                                # writes figures/mini/narrow.csv
    python bench/narrow.py --profile smoke --size quick   # a tenth of it, written beside the runs

A folder's embeddings are float32 or float16; the setting `index` says what is searched. Queries are asked one
at a time, as a list asks. Each row is measured in a process of its own.
"""
import ctypes
import gc
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from growth import peak_memory
from race import asked, made_items, made_queries, measured_dir, own_store

from modit.index.audit import neighbours_found
from modit.repro.report.report import kernels
from modit.retrieval import faiss
from modit.serving.catalogue import make_catalogue
from modit.store import atomic_write, open_rows, save_rows, stream

SIZES = dict(full=(100_000, 384), quick=(10_000, 96), toy=(1200, 16)) # items, dimensions
WORDS = ('flat', 'ivf', 'ivf_disk', 'narrow:in_bytes')                # of the setting `index`
K = 20


def in_bytes(
    items, # (n, d) unit
): # a FAISS index
    "All items with a byte for each coordinate, in memory: an index of one's own for the setting `index`."
    index = faiss.IndexScalarQuantizer(items.shape[1], faiss.ScalarQuantizer.QT_8bit,
                                       faiss.METRIC_INNER_PRODUCT)
    index.train(items[:10_000])
    for i in range(0, len(items), 10_000): index.add(items[i:i + 10_000])
    return index


def held_memory() -> float: # MB
    "Memory of this process that no file backs, as Linux counts it, after what is free has been given back."
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(re.search(r'RssAnon:\s*(\d+) kB', Path('/proc/self/status').read_text())[1])/2**10


def on_disk(folder): return sum(x.stat().st_size for x in Path(folder).rglob('*') if x.is_file())/2**20 # MB


def exact(
    items,   # (n, d) float32, unit
    queries, # (q, d) unit
) -> np.ndarray: # (q, K) rows
    "The nearest items in double precision, equal ones in the order of their rows."
    x = items.astype(np.float64)
    return np.stack([np.argsort(-(x @ q), kind='stable')[:K] for q in queries.astype(np.float64)])


def measure(
    path,    # table of items
    word,    # of WORDS
    queries, # (q, d) unit
    true,    # of `exact`
) -> dict:   # table_mb, index_mb, memory_mb, peak_mb, recall, alone
    "Serve the items of a file in this process."
    torch.set_num_threads(1)
    with own_store() as home:
        before, most = held_memory(), peak_memory()
        goods = make_catalogue(SimpleNamespace(items=open_rows(path)), word)
        found = np.concatenate([goods.index.search(q[None], K)[1] for q in queries])
        sizes = dict(table_mb=path.stat().st_size/2**20, index_mb=on_disk(home),
                     memory_mb=held_memory() - before, peak_mb=peak_memory() - most)
        alone = np.concatenate([goods.index.index.search(q[None], K)[1] for q in queries])
    shares = dict(recall=found, alone=alone)
    return sizes | {name: neighbours_found(x, true).mean() for name, x in shares.items()}


def compare(
    folder,  # for the two tables of items
    size,    # items, dimensions
    many=256, # queries
) -> pd.DataFrame: # a row for each kind of numbers and each word
    "Every word with items of both kinds, each in a separate process."
    rng, rows = stream(0, 'narrow', *size), []
    items = made_items(*size, rng)
    queries = made_queries(items, many, rng)
    true = exact(items, queries)
    for name, kind in dict(float32='<f4', float16='<f2').items():
        path = Path(folder)/f'{name}.npy'
        save_rows(path, [items], size, kind)
        for word in WORDS:
            with ProcessPoolExecutor(1, get_context('fork')) as pool:
                row = pool.submit(measure, path, word, queries, true).result()
            rows.append(dict(items=size[0], dim=size[1], embeddings=name, index=word) | row)
    return pd.DataFrame(rows).assign(processor=kernels()['processor'])


def write_narrow(
    s,           # Settings of a profile
    size='full', # full, quick or toy
) -> pd.DataFrame:
    "Measure, and write the table."
    with own_store() as home: table = compare(home, SIZES[size])
    text = table.to_csv(index=False, float_format='%.4g', lineterminator='\n')
    atomic_write(measured_dir(s, size)/'narrow.csv', text)
    return table


if __name__ == '__main__': print(write_narrow(*asked(SIZES, __doc__)).round(3).to_string(index=False))
