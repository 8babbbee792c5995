"""A model that is handed on: what it finds, what it refuses, and that nothing is lost on the way."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from huggingface_hub import ModelCard

from conftest import COMMAND, ROOT, begin_apart, contents, environment, full_disk, write_shoes
from modit.anchored import anchored
from modit.evaluation import case_noise
from modit.data.folder import write_folder
from modit.retrieval import VectorIndex
from modit.stages.pipeline import get_corpus
from modit.serving import bundle
from modit.serving.bundle import BACKBONES, _config_hash, settings_alone
from modit.serving.fit import evaluate_model, fit
from modit.serving.lists import answer_line
from modit.serving.retriever import Retriever
from modit.settings import load_settings, override
from modit.data.synth import make_domain, make_world

TINY = dict(pretrain_steps=6, hppo_cases=16, train_rows=[200], checkpoint_every=2)
PLAIN = dict(share=1., step=0., own=0.)  # the policy's query as it is


@pytest.fixture(scope='module')
def shoes(home):
    "A folder with its model, trained for a few steps."
    fit(write_shoes(home/'shoes', 'no. {}'.format), 'smoke')
    return home/'shoes'


@pytest.fixture
def loaded(shoes): return Retriever.load(shoes/'model')


@pytest.fixture
def copied(shoes, tmp_path): return Path(shutil.copytree(shoes/'model', tmp_path/'model'))


# ---- what is found
def by_hand(retriever, x, k, scale, hidden):
    "The list without cache, mask, index or table: one full pass a step, all inner products."
    s, model = retriever.settings, retriever.model
    x = torch.from_numpy(x[np.argsort(x @ retriever.facts['probe'], kind='stable')])[None]
    z, place = case_noise(1, (1, s.dim), s, retriever.name), torch.tensor([x.shape[1]])
    with torch.no_grad():
        for i in range(s.ode_steps):
            t = torch.full((1, 1), i/s.ode_steps)
            without = model(x, z, t, place, visible=torch.zeros(1, 1, dtype=torch.bool))
            z = z + (without + scale*(model(x, z, t, place) - without))/s.ode_steps
            z = z/z.norm(dim=-1, keepdim=True)
    scores = retriever.catalogue.items @ z[0, 0].numpy()
    scores[hidden] = -np.inf
    best = np.argsort(-scores, kind='stable')[:k]
    return retriever.catalogue.ids[best], scores[best]


@pytest.mark.parametrize('n, scale', [(1, None), (3, 1.), (6, 0.), (6, 2.5)])
def test_a_list_is_what_a_plain_computation_finds(loaded, n, scale):
    if scale is not None: loaded = replace(loaded, settings=replace(loaded.settings, guidance_scale=scale))
    rows = np.random.default_rng(n).choice(len(loaded.catalogue.ids), n, replace=False)
    x = loaded.catalogue.items[rows]
    ids, scores = by_hand(loaded, x, 20, loaded.settings.guidance_scale, rows)
    for seeds in (loaded.catalogue.ids[rows], x, x[::-1], 3*x.astype(np.float64)): # in any order and form
        found = loaded.expand(seeds, 20, **PLAIN)
        assert np.allclose(found.score, scores, atol=1e-5) and found.score.is_monotonic_decreasing
        assert len(set(found.id) & set(ids)) >= 19 # near ties may fall either way
    assert found.text.tolist() == [f'no. {name.split()[1]}' for name in found.id]
    items = loaded.catalogue.items[loaded.catalogue.rows_of(found.id)]
    assert np.allclose(found.density, loaded.density(items))


@pytest.fixture(scope='module')
def numbered(home):
    "A folder whose ids are whole numbers below and above 2**63, with copies of an item, searched untrained."
    domain = make_domain(make_world(load_settings('smoke')), 'D1', load_settings('smoke'))
    items = domain.items.copy()
    items[100:700] = items[100]
    ids = [177 + i if i % 2 else 13811189083039875000 + i for i in range(len(items))]
    ids[7], ids[9] = 2**70, -5
    write_folder(home/'points', items, ids, domain.attribute)
    return Retriever.untrained(home/'points', 'smoke')


def test_whole_numbers_are_ids_however_they_come(numbered):
    goods, dim = numbered.catalogue, numbered.settings.dim
    ids = [int(name) for name in goods.ids[:dim]]
    forms = [ids, tuple(ids), list(goods.ids[:dim]), np.array(ids, object),
             [*map(np.uint64, ids[:2]), *ids[2:]], pd.Series(ids, dtype=object), [str(ids[0]), *ids[1:]]]
    for seeds in forms: assert numbered.seed_vectors(seeds)[1].tolist() == list(range(dim))
    assert numbered.seed_vectors(ids[:2])[1].tolist() == [0, 1]
    assert numbered.seed_vectors(np.array(ids[0], np.uint64))[1].tolist() == [0]
    wishes = dict(without=ids[2:4], judged={str(ids[4]): 1, str(ids[5]): 0})
    answers = [answer_line(numbered, json.dumps(dict(seeds=x, k=30) | wishes)) for x in (
        ids[:2], list(map(str, ids[:2])))]
    assert answers[0]['items'] == answers[1]['items'] and not {*goods.ids[:6]} & {
        item['id'] for item in answers[0]['items']}
    odd = [float(i) for i in ids if i < 2**50 and i != -5]
    for seeds in (odd, odd[:1], np.array(odd[:2])):
        assert goods.ids[numbered.seed_vectors(seeds)[1]].tolist() == [f'{x:.0f}' for x in seeds]


def test_a_vector_stays_a_vector_and_a_flat_one_of_whole_numbers_is_told(numbered):
    dim = numbered.settings.dim
    sign = np.where(np.arange(dim) % 3, 1., -1.)
    for vector in ([sign.tolist()], sign.astype(int)[None], sign.astype(np.int8)[None],
                   [[int(x) for x in sign]], .5*sign):
        x, rows = numbered.seed_vectors(vector)
        assert rows.tolist() == [-1] and np.allclose(x[0], sign/dim**.5, atol=1e-6)
    for flat in (sign, sign.tolist(), sign.astype(np.int8), [int(x) for x in sign]):
        with pytest.raises(ValueError, match='a vector is a list in a list') as refusal: numbered.expand(flat)
        assert '\n' not in str(refusal.value)


def test_seeds_without_a_direction_move_nothing_or_are_told(numbered):
    goods = numbered.catalogue
    name = goods.ids[100]
    with pytest.warns(UserWarning, match='own: the items around the seeds equal them'):
        moved = numbered.query([name], step=0, own=.6)
    assert np.allclose(moved, goods.items[100], atol=1e-6)
    for x in (goods.items[:1], goods.items[:2]):
        with pytest.raises(ValueError, match='the seeds cancel out'): numbered.query(np.concatenate([x, -x]))
    flat = replace(numbered, facts=numbered.facts | dict(probe=0*numbered.facts['probe']))
    assert np.allclose(flat.query([name], step=.4, own=0), goods.items[100], atol=1e-6)


def test_a_list_is_the_beginning_of_a_longer_one_with_many_copies(numbered):
    seeds, moves = [numbered.catalogue.ids[250]], dict(step=0, own=0)
    copies = [name for name in numbered.catalogue.ids[100:700] if name != seeds[0]]
    for k in (3, 9, 599): # by row, with a condition that all meet and without
        assert numbered.expand(seeds, k, **moves).id.tolist() == copies[:k]
        assert numbered.expand(seeds, k, where='attribute>=0', **moves).id.tolist() == copies[:k]


def test_an_index_that_finds_too_few_names_no_item(numbered):
    items = np.asarray(numbered.catalogue.items)
    class Short:
        "An index that finds few, says -1 for the others, and prefers late rows among equal ones."
        def __init__(self, most): self.most = most
        def search(self, queries, k):
            order = np.lexsort((-np.arange(len(items)), -(queries @ items.T)[0]))[:min(k, self.most)]
            ids = np.full((1, k), -1)
            ids[0, :len(order)] = order
            return np.where(ids < 0, -np.inf, 0), ids
    def found(index, k):
        goods = replace(numbered.catalogue, index=index)
        return replace(numbered, catalogue=goods).expand([goods.ids[250]], k, step=0, own=0).id.tolist()
    copies = [x for x in numbered.catalogue.ids[100:700] if x != numbered.catalogue.ids[250]]
    assert len(found(Short(9), 9)) == 9 and found(Short(2000), 5) == copies[:5]
    with pytest.raises(ValueError, match='9 are left'): found(Short(9), 10)
    for kind in ('flat', 'hnsw', 'ivf'):
        some = found(VectorIndex(items, kind, block=1), 5)
        assert {*some} <= {*copies} and (kind != 'flat' or some == copies[:5])


def test_a_folder_without_its_embeddings_is_told_as_that(shoes, tmp_path):
    gone = Path(shutil.copytree(shoes, tmp_path/'gone'))
    (gone/'embeddings.npy').unlink()
    for folder in ((gone,), (shoes/'model', gone)):
        with pytest.raises(ValueError, match='gone.* embeddings.npy is missing'): Retriever.load(*folder)
    with pytest.raises(ValueError, match='gone: embeddings.npy is missing'): fit(gone, 'smoke')
    with pytest.warns(UserWarning, match='gone has items.csv, and its embeddings.npy is missing'):
        assert Retriever.load(gone/'model').catalogue is None


@pytest.mark.parametrize('seeds, more, said', [ # others are on page retriever
    (['shoe 1', 'boot', 'cap'], {}, "seed 'boot' and 1 more: not among the 3,000 items"),
    (np.ones((2, 5), int), {}, 'dimension 5, expected 16'), (np.ones((1, 2, 16)), {}, 'a table of rows'),
    ([['shoe 1']], {}, 'neither ids nor vectors of 16'), ([1, [2]], {}, 'neither ids nor vectors of 16'),
    (['shoe 1'], dict(k=True), 'k: True items asked'), (['shoe 1'], dict(k=3000), '2999 are left'),
    (['shoe 1'], dict(own=float('inf')), 'own inf')])
def test_seeds_that_cannot_be_read_are_refused_in_one_line(loaded, seeds, more, said):
    with pytest.raises(ValueError, match=said) as refusal: loaded.expand(seeds, **more)
    assert '\n' not in str(refusal.value)


# ---- there and back
def test_a_model_says_nothing_of_items_labels_and_places(shoes):
    files = contents(shoes/'model')
    assert set(files) == {'README.md', 'config.json', 'facts.safetensors', 'model.safetensors'}
    text = files['config.json'].decode() + files['README.md'].decode()
    assert str(shoes) not in text and 'shoe 1' not in text and 'no. 1' not in text
    s = json.loads(files['config.json'])['settings']
    assert s['folders'] == [] and s['domains'] == ['shoes']


def rewritten(folder, **changes):
    "Other values in a config, with a hash that fits."
    config = json.loads((folder/'config.json').read_text('utf-8')) | changes
    (folder/'config.json').write_text(json.dumps(config | dict(sha256=_config_hash(config))), 'utf-8')


def test_no_function_named_in_a_config_is_followed(copied, shoes, tmp_path, monkeypatch):
    settings = json.loads((copied/'config.json').read_text('utf-8'))['settings']
    (tmp_path/'evil.py').write_text(f"open({str(tmp_path/'ran')!r}, 'w')\ndef run(*_): pass", 'utf-8')
    monkeypatch.syspath_prepend(str(tmp_path))
    rewritten(copied, settings=settings | dict(index='evil:run'))
    found = Retriever.load(copied, shoes)
    found.expand(['shoe 1'], 3)
    assert found.settings.index == 'flat' and not (tmp_path/'ran').exists()
    for word in ('evil:run', 'modit.anchored:anchored', 'modit.cli.command:main', 'os:system'):
        rewritten(copied, settings=settings | dict(backbone=word))
        with pytest.raises(ValueError, match='backbone .* is not of this'): Retriever.load(copied, shoes)
    assert not (tmp_path/'ran').exists()
    assert set(BACKBONES) == {s.backbone for s in (load_settings('smoke'), anchored(load_settings('smoke')))}
    s = load_settings('smoke')
    assert settings_alone(settings_alone(s, 'D3'), 'D3') == settings_alone(s, 'D3')


DAMAGE = dict(
    cut=lambda data: data[:-20], empty=lambda data: b'', flipped=lambda data: data[:-9] + b'\1' + data[-8:])


@pytest.mark.parametrize('name', ['config.json', 'model.safetensors', 'facts.safetensors'])
@pytest.mark.parametrize('how', [*DAMAGE, 'missing'])
def test_a_damaged_folder_is_refused_in_one_line(copied, name, how):
    if how == 'missing': (copied/name).unlink()
    else: (copied/name).write_bytes(DAMAGE[how]((copied/name).read_bytes()))
    with pytest.raises(ValueError, match=f'damaged|{name}') as refusal: Retriever.load(copied)
    assert '\n' not in str(refusal.value)


@pytest.mark.parametrize('text', ['[]', '"modit"', '{"architectures": ["BertModel"]}', '{"format": 1}',
                                  '{"format": "modit retriever 2"}', '{"format": "modit retriever 3"}'])
def test_a_foreign_folder_is_refused_in_one_line(copied, text):
    (copied/'config.json').write_text(text, 'utf-8')
    with pytest.raises(ValueError, match='config.json') as refusal: Retriever.load(copied)
    assert '\n' not in str(refusal.value)


@pytest.mark.parametrize('changes, said', [ # of a config, or of the settings in it
    (dict(width=64), 'does not fit this model'), (dict(k=-1), 'setting k'),
    (dict(sampler='magic'), 'setting sampler'), (dict(new=1), 'another version'),
    (dict(k=None), 'another version.*k|setting k'), (dict(files={}), 'no weights'),
    (dict(files={'model.safetensors': None}), 'no facts.safetensors'),
    (dict(files={'../../ids': '0'*64}), r'damaged \(ids\)'), (dict(files=3), 'lacks settings, about'),
    (dict(files={'facts.safetensors': 5}), r'damaged \(facts'), (dict(settings=[]), 'lacks settings'),
    (dict(about=None), 'lacks settings, about'),
    (dict(about=dict(stage='sft')), 'lacks items, items_key, moves, trained')])
def test_a_config_made_by_hand_is_refused_in_one_line(copied, shoes, changes, said):
    config = json.loads((copied/'config.json').read_text('utf-8'))
    if not changes.keys() & config.keys(): changes = dict(settings=config['settings'] | changes)
    files = changes.get('files')
    if files == {'model.safetensors': None}: changes['files'] = {x: config['files'][x] for x in files}
    rewritten(copied, **changes)
    with pytest.raises(ValueError, match=said) as refusal: Retriever.load(copied, shoes)
    assert '\n' not in str(refusal.value)


def test_what_lies_beside_a_model_is_never_opened(copied, shoes, loaded):
    (copied/'model.pkl').write_bytes(b'cos\nsystem\n')
    (copied/'foreign.safetensors').write_bytes(b'x')
    found = Retriever.load(copied, shoes).expand(['shoe 1'], 5)
    pd.testing.assert_frame_equal(found, loaded.expand(['shoe 1'], 5))
    (copied/'model.safetensors').write_bytes(b'cos\nsystem\n') # a pickle in the place of the weights
    with pytest.raises(ValueError, match=r'damaged \(model.safetensors\)'): Retriever.load(copied, shoes)


def test_items_of_another_kind_are_refused_and_other_items_told(loaded, shoes):
    with pytest.raises(ValueError, match='dimension 4, shoes was fitted on 16'):
        Retriever.load(shoes/'model', SimpleNamespace(items=np.eye(4)))
    assert Retriever.load(shoes).about == loaded.about # a folder is answered for by the model in it
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        Retriever.load(shoes/'model', loaded.catalogue) # the same items, from memory
    x = loaded.catalogue.items
    spread = np.sqrt(((x - x.mean(0))**2).sum(1).mean())
    for change in (x[:100], np.roll(x, 1, axis=1), -x):
        far = np.linalg.norm(change.mean(0) - x.mean(0))/spread
        said = f'other items; it searches these {len(change):,}.*mean has moved by {far:.0%} of the spread'
        with pytest.warns(UserWarning, match=said):
            Retriever.load(shoes/'model', SimpleNamespace(items=change))


# ---- nothing is lost
def test_a_full_disk_keeps_the_old_model(loaded, copied):
    before = contents(copied)
    with full_disk(20_000), pytest.raises(OSError, match='cannot write.*nothing was changed'):
        loaded.save(copied)
    assert contents(copied) == before


@pytest.mark.parametrize('done', [0, 1, 2, 3])
@pytest.mark.parametrize('first', [True, False])
def test_a_killed_save_is_refused_or_whole_and_can_be_repeated(loaded, tmp_path, monkeypatch, done, first):
    folder, replaced, usual = tmp_path/'model', [], os.replace
    if not first:
        other = Retriever.load(loaded.save(folder))
        other.facts['bias'] = other.facts['bias'] + 1
        other.save(folder)
    def dies(source, target):
        "`os.replace` in the folder itself works so many times."
        if Path(target).parent == folder:
            if len(replaced) == done: raise KeyboardInterrupt
            replaced.append(target)
        usual(source, target)
    with monkeypatch.context() as m:
        m.setattr(os, 'replace', dies)
        with pytest.raises(KeyboardInterrupt): loaded.save(folder)
    if first or done: # some files are new: all must be
        with pytest.raises(ValueError, match='damaged|no model'): Retriever.load(folder)
    loaded.save(folder)
    assert np.array_equal(Retriever.load(folder).facts['bias'], loaded.facts['bias'])


def test_a_model_that_is_replaced_while_it_is_read_is_told(loaded, copied, monkeypatch):
    usual = bundle._read_model
    def meanwhile(*given):
        loaded.save(copied)
        return usual(*given)
    monkeypatch.setattr(bundle, '_read_model', meanwhile)
    with pytest.raises(ValueError, match='were replaced while they were read; read them again'):
        Retriever.load(copied)


@pytest.mark.slow
def test_a_fit_that_is_killed_ends_with_the_same_bytes(tmp_path, monkeypatch):
    folder, log = write_shoes(tmp_path/'shoes', 'no. {}'.format), tmp_path/'log'
    words = ['fit', folder, '--variant', 'adaptive', '--profile', 'smoke', '--overrides', json.dumps(TINY)]
    stops = ('checkpoint.safetensors', signal.SIGINT), ('adaptive-', signal.SIGKILL), (None, None)
    for sign, stop in stops: # stopped when such a file is there
        log.write_text('', 'utf-8')
        run = begin_apart(COMMAND, *words, out=log, MODIT_RUNS=tmp_path/'runs')
        while run.is_alive() and not (sign and [*(tmp_path/'runs').rglob(f'{sign}*')]): time.sleep(.02)
        if sign: os.kill(run.pid, stop)
        run.join()
        if stop == signal.SIGINT:
            said = 'modit: stopped; the same command resumes it'
            assert run.exitcode == 130 and log.read_text('utf-8').splitlines()[-1] == said
    assert run.exitcode == 0, log.read_text('utf-8')[-2000:]
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path/'others'))
    fit(folder, 'smoke', 'adaptive', tmp_path/'again', **TINY)
    assert contents(folder/'model') == contents(tmp_path/'again'/'shoes')


@pytest.mark.slow
def test_two_fits_of_one_folder_take_turns(shoes, tmp_path):
    folder, log = write_shoes(tmp_path/'shoes', 'no. {}'.format), tmp_path/'log'
    words = dict(out=log, MODIT_RUNS=tmp_path/'runs')
    both = [begin_apart(COMMAND, 'fit', folder, '--profile', 'smoke', **words) for _ in range(2)]
    for run in both: run.join()
    said = log.read_text('utf-8')
    assert [run.exitcode for run in both] == [0, 0], said
    assert any(f'modit: waiting for process {run.pid} on ' in said for run in both)
    assert contents(folder/'model') == contents(shoes/'model')


@pytest.mark.slow
def test_a_fit_of_two_processes_ends_and_the_first_alone_speaks(tmp_path):
    folder = write_shoes(tmp_path/'shoes')
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    env = dict(MODIT_RUNS=tmp_path/'runs', WORLD_SIZE=2, MASTER_ADDR='127.0.0.1', MASTER_PORT=port,
               ACCELERATE_USE_CPU='true', CUDA_VISIBLE_DEVICES='')
    both = [begin_apart(COMMAND, 'fit', folder, '--profile', 'smoke', RANK=x, LOCAL_RANK=x, **env,
                        out=tmp_path/x, err=tmp_path/f'{x}.log') for x in '01']
    for run in both: run.join()
    said = [(tmp_path/x).read_text('utf-8') for x in '01']
    assert [run.exitcode for run in both] == [0, 0], (tmp_path/'0.log').read_text('utf-8')
    assert 'model in' in said[0] and not said[1]
    assert Retriever.load(folder).about.metrics


# ---- scores and commands
def test_the_card_is_one_of_a_hub_and_its_gains_are_differences(loaded, shoes):
    rows = pd.DataFrame(loaded.about.metrics).set_index(['split', 'what', 'metric']).estimate
    for split in ('item', 'pattern'):
        gain = rows[split, 'served', 'joint'] - rows[split, 'average', 'joint']
        assert abs(rows[split, 'served - average', 'joint'] - gain) < 2e-6
    head = ModelCard(loaded.card, ignore_metadata_errors=False).data # as a hub of models reads it
    assert head.library_name == 'modit' and 'retrieval' in head.tags
    s = override(loaded.settings, folders=[str(shoes)])
    assert f'{get_corpus(s, "shoes").attribute.mean():.1%} have the attribute' in loaded.card


def test_evaluation_refuses_other_labels_and_other_splits(shoes, tmp_path):
    other = Path(shutil.copytree(shoes, tmp_path/'shoes'))
    table = pd.read_csv(other/'items.csv')
    table['attribute'] = table.attribute.to_numpy()[::-1]
    table.to_csv(other/'items.csv', index=False)
    for model, more in ((other/'model', {}), (shoes/'model', dict(heldout_items=.2))):
        with pytest.raises(ValueError, match='not those it was fitted on'): evaluate_model(model, **more)
    lonely = Path(shutil.copytree(shoes/'model', tmp_path/'away'/'model'))
    with pytest.raises(ValueError, match="lies in no domain's folder"): evaluate_model(lonely)


@pytest.mark.parametrize('more, said', [
    (dict(stage='sfft'), "variant 'sfft' is unknown"),
    (dict(stage='corpus'), 'use alone, direct, sft, '), (dict(stage='sft', backbone='a:b'), 'not of this'),
    (dict(backbone='a:b'), 'not of this package'), (dict(pretrain_step=3), 'did you mean pretrain_steps'),
    (dict(profile='tiny'), 'unknown profile'), (dict(to='.'), None)])
def test_a_fit_is_refused_before_it_trains(shoes, tmp_path, monkeypatch, more, said):
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path/'runs'))
    if said is None: more, said = dict(to=shoes.parent), 'holds other things'
    with pytest.raises(ValueError, match=said): fit(shoes, **(dict(profile='smoke') | more))
    assert not (tmp_path/'runs').exists()


@pytest.mark.slow
def test_a_reader_of_the_list_may_stop(shoes):
    argv = ['expand', shoes/'model', '--seeds', '-', '--k', 2000]
    command = [sys.executable, '-c', COMMAND, *map(str, argv)]
    with subprocess.Popen(command, cwd=ROOT, env=environment(ROOT), stdin=-1, stdout=-1, stderr=-1) as run:
        run.stdin.write(b'shoe 1')
        run.stdin.close()
        run.stdout.close()
        said = run.stderr.read().decode()
    assert run.returncode == 0 and 'pipe' not in said.lower(), said


def test_the_command_prints_a_list_that_can_be_piped(loaded, shoes, modit):
    seeds = loaded.catalogue.ids[:8]
    line = ['expand', shoes/'model', '--seeds', '-', '--k', 5]
    def ids(lines): return [x.split('\t')[0] for x in lines[1:]]
    moves = ['--moves', json.dumps(PLAIN)]
    with pytest.warns(UserWarning, match='8 seeds, and shoes reads 6') as said:
        status, lines, _ = modit(*line, *moves, stdin='\n'.join(seeds))
        found = loaded.expand(seeds, 5, **PLAIN)
    assert status == 0 and lines[0].split('\t') == ['id', 'score', 'density', 'pattern', 'text']
    assert ids(lines) == found.id.tolist() and len(said) == 2
    six = '\n'.join(seeds[:6])
    _, lines, _ = modit(*line, '--untrained', stdin=six)
    assert ids(lines) == Retriever.untrained(shoes).expand(seeds[:6], 5).id.tolist()
    _, lines, _ = modit(*line, '--moves', json.dumps(dict(share=.3, step=.4, own=.4)), stdin=six)
    assert ids(lines) == loaded.expand(seeds[:6], 5, share=.3, step=.4, own=.4).id.tolist()
    status, lines, last = modit(*line, stdin='boot')
    assert status == 2 and not lines and last.startswith("modit: seed 'boot'")
