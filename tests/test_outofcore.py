"""Items stay on disk: what a process may hold is limited, and tables are moved, cut short and left over."""
import subprocess
import sys

import numpy as np
import pytest

from conftest import ROOT, environment, own_settings
from modit.stages import pipeline
from modit.data.folder import write_folder
from modit.ordering import Corpus, centroid, prepare_corpus
from modit.settings import load_settings
from modit.rows import row_lengths
from modit.store import open_rows
from modit.data.synth import load_domain, make_domain, make_world, save_domain

S = load_settings('smoke')
D1 = make_domain(make_world(S), 'D1', S)

# A domain of 154 MB is drawn, prepared, stored, read and labelled by a process that may take 800 MB of
# addresses beside those of its libraries, mapped files among them. With the items in memory it took 1,080 MB.
LIMITED = """
import resource
import sys
from pathlib import Path
from modit.candidates import label_pool, static_candidates
from modit.data.synth import synthetic_domain
from modit.ordering import Corpus, prepare_corpus, training_cases
from modit.settings import load_settings
from modit.data.synth import load_domain, save_domain

one = dict(domains=['D1'], items=[300_000], dim=128, clusters=[40], heldout_clusters=[4], valid_clusters=[4],
           train_rows=[100], normal_share=[.1], repetition=[1], sft_epochs=[1])
s = load_settings('smoke', **one, index='ivf', heldout_positives=90, seq_len=40, prefix_len=30, k=50)
taken = int(Path('/proc/self/statm').read_text('utf-8').split()[0])*resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 800_000_000,)*2)
folder = Path(sys.argv[1])
domain, made = folder/'domain.safetensors', folder/'corpus.safetensors'
save_domain(synthetic_domain(s, 'D1', domain.with_suffix('.npy')), domain)
prepare_corpus(load_domain(domain), s).save(made)
corpus = Corpus.load(made)
cases = training_cases(corpus, 100, s)
pool = label_pool(corpus, cases, dict(static=static_candidates(corpus, cases, s.tail_depths)), s.k)
print(pool.joint.shape, sorted(p.name for p in folder.glob('*.*')))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != 'linux', reason='other systems do not say or limit addresses this way')
def test_a_domain_need_not_fit_in_memory(tmp_path):
    steady = {k: v for k, v in environment(ROOT).items() if not k.startswith('MALLOC_')}
    few = steady | dict(MODIT_RUNS=str(tmp_path/'runs'), MALLOC_ARENA_MAX='1')
    command = [sys.executable, '-c', LIMITED, str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, env=few, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.strip() == "(100, 2) ['corpus.safetensors', 'domain.npy', 'domain.safetensors']"


def test_a_domain_drawn_to_disk_is_the_one_drawn_in_memory(tmp_path):
    there = make_domain(make_world(S), 'D1', S, path=tmp_path/'D1.npy')
    assert isinstance(there.items, np.memmap)
    for name, value in vars(D1).items(): assert np.array_equal(value, getattr(there, name)), name
    save_domain(there, tmp_path/'D1.safetensors')
    save_domain(D1, tmp_path/'other'/'D1.safetensors')
    one, two = tmp_path/'D1.safetensors', tmp_path/'other'/'D1.safetensors'
    assert one.read_bytes() == two.read_bytes()
    assert np.array_equal(open_rows(two.with_suffix('.npy')), D1.items)


def test_a_corpus_does_not_write_the_items_of_its_domain_again(tmp_path):
    save_domain(D1, tmp_path/'D1.safetensors')
    corpus = prepare_corpus(load_domain(tmp_path/'D1.safetensors'), S)
    corpus.save(tmp_path/'corpus.safetensors')
    assert [p.name for p in tmp_path.glob('*.npy')] == ['D1.npy']
    (tmp_path/'moved').mkdir()
    for path in tmp_path.glob('*.*'): path.rename(tmp_path/'moved'/path.name)
    again = Corpus.load(tmp_path/'moved'/'corpus.safetensors')
    assert np.array_equal(again.items, D1.items) and np.array_equal(again.density, corpus.density)


@pytest.mark.parametrize('kind, length, copies', [(np.float32, 1, 0), (np.float32, 3, 1), (np.float16, 1, 1)])
def test_items_of_a_folder_stay_there_if_they_are_unit_rows(tmp_path, monkeypatch, kind, length, copies):
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path/'runs'))
    given = (length*D1.items).astype(kind)
    write_folder(tmp_path/'mine', given, [f'i{i}' for i in range(3000)], D1.attribute)
    assert np.array_equal(np.load(tmp_path/'mine'/'embeddings.npy'), given) # in its own precision
    corpus = pipeline.get_corpus(own_settings([tmp_path/'mine'], [3000]), 'mine')
    assert corpus.items.dtype == np.float32 and isinstance(corpus.items, np.memmap)
    limit = 2e-6 if kind is np.float32 else np.finfo(np.float16).eps # of half precision: its rounding
    assert np.abs(row_lengths(corpus.items) - 1).max() < limit
    tables = list((tmp_path/'runs').rglob('*.npy'))
    assert [x.stat().st_size - 128 for x in tables] == [D1.items.nbytes]*copies
    assert max(x.stat().st_size for x in (tmp_path/'runs').rglob('*.*')) <= 128 + D1.items.nbytes
    (tmp_path/'mine').rename(tmp_path/'elsewhere')
    moved = own_settings([tmp_path/'elsewhere'], [3000], domains=['mine'])
    made = pipeline.stage_path(moved, 'corpus', 'mine').stat().st_mtime_ns
    assert np.array_equal(pipeline.get_corpus(moved, 'mine').items, corpus.items)
    assert pipeline.stage_path(moved, 'corpus', 'mine').stat().st_mtime_ns == made


@pytest.mark.parametrize('data', [None, b'id,text\n']) # page store has one that was cut off
def test_a_table_that_is_not_whole_is_named(tmp_path, data):
    save_domain(D1, tmp_path/'D1.safetensors')
    table = tmp_path/'D1.npy'
    table.unlink() if data is None else table.write_bytes(data)
    with pytest.raises(ValueError, match=r'D1\.npy: the table of rows .* the next run makes them again') as e:
        load_domain(tmp_path/'D1.safetensors')
    assert '\n' not in str(e.value)


def test_centroids_do_not_depend_on_blocks():
    ids = np.random.default_rng(0).integers(3000, size=(50, 4))
    assert np.array_equal(centroid(D1.items, ids, block=7), centroid(D1.items, ids))
