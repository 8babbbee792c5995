"""A model's folder under the names of the Hub: the same files and lists, without the network."""
import shutil
import socket
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from huggingface_hub import HfApi, ModelHubMixin

from modit.data.folder import write_folder
from modit.data.synth import make_domain, make_world
from modit.serving.fit import fit
from modit.serving.hub import HubRetriever
from modit.serving.retriever import Retriever
from modit.settings import load_settings

SEEDS = ['shoe 7', 'shoe 12', 'shoe 3']


@pytest.fixture(scope='module')
def shoes(tmp_path_factory):
    "A folder with its model, trained for a few steps in a store of its own."
    home, s = tmp_path_factory.mktemp('home'), load_settings('smoke')
    domain = make_domain(make_world(s), 'D1', s)
    with pytest.MonkeyPatch.context() as m:
        m.setenv('MODIT_RUNS', str(home/'runs'))
        write_folder(home/'shoes', domain.items, [f'shoe {i}' for i in range(len(domain.items))],
                     domain.attribute)
        fit(home/'shoes', 'smoke')
        yield home/'shoes'


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*a, **how): raise AssertionError(f'the network was asked: {a}')
    for name in ('getaddrinfo', 'create_connection'): monkeypatch.setattr(socket, name, refuse)
    for name in ('connect', 'connect_ex'): monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)  # as HF_HUB_OFFLINE=1 at the start


def contents(folder): return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}
def lists(retriever, seeds=SEEDS): return retriever.expand(seeds, k=20, share=1.)  # by the policy


def test_a_model_is_read_and_written_as_by_load_and_save(shoes, tmp_path):
    ours, hub = Retriever.load(shoes/'model'), HubRetriever.from_pretrained(shoes/'model')
    assert isinstance(hub, ModelHubMixin) and hub.model is not None
    pd.testing.assert_frame_equal(lists(hub), lists(ours))
    for _ in range(2): assert hub.save_pretrained(tmp_path/'copy') is None
    assert contents(tmp_path/'copy') == contents(shoes/'model')
    pd.testing.assert_frame_equal(lists(Retriever.load(tmp_path/'copy', shoes)), lists(ours))
    again = HubRetriever.from_pretrained(tmp_path/'copy', items=shoes)
    pd.testing.assert_frame_equal(lists(again), lists(ours))
    assert np.array_equal(again.queries([SEEDS]), ours.queries([SEEDS]))


def test_items_are_not_copied_for_a_config(shoes):
    hub = HubRetriever.from_pretrained(shoes/'model')
    assert hub.over(hub.catalogue).catalogue is hub.catalogue and hub._hub_mixin_config == {}


def test_what_is_sent_is_the_folder(shoes, monkeypatch):
    sent = {}
    class Made: repo_id = 'me/shoes'
    def upload(self, *, folder_path, repo_id, **how):
        sent[repo_id] = contents(Path(folder_path))
        return 'address'
    monkeypatch.setattr(HfApi, 'create_repo', lambda self, **how: Made)
    monkeypatch.setattr(HfApi, 'upload_folder', upload)
    hub = HubRetriever.from_pretrained(shoes/'model')
    assert hub.push_to_hub('me/shoes') == 'address' and sent == {'me/shoes': contents(shoes/'model')}


def test_sending_may_follow_writing(shoes, tmp_path, monkeypatch):
    monkeypatch.setattr(HubRetriever, 'push_to_hub', lambda self, repo_id, **how: (repo_id, how))
    hub = HubRetriever.from_pretrained(shoes/'model')
    sent = hub.save_pretrained(tmp_path/'boots', push_to_hub=True, private=True)
    assert sent == ('boots', dict(private=True))
    assert contents(tmp_path/'boots') == contents(shoes/'model')


def test_a_fetched_repository_is_read_without_the_network(shoes, tmp_path):
    kept = tmp_path/'models--me--shoes'
    shutil.copytree(shoes/'model', kept/'snapshots'/('0'*40))
    (kept/'refs').mkdir()
    (kept/'refs'/'main').write_text('0'*40)
    hub = HubRetriever.from_pretrained('me/shoes', items=shoes, cache_dir=tmp_path)
    pd.testing.assert_frame_equal(lists(hub), lists(Retriever.load(shoes/'model')))


DAMAGE = {'{': 'not of a modit retriever', '[]': 'not of a modit retriever',
          '{"settings": {}, "model_type": "bert"}': 'not of a modit retriever', None: 'no config.json'}


@pytest.mark.parametrize('text', DAMAGE)
def test_a_folder_that_is_no_model_gives_a_line(text, shoes, tmp_path):
    shutil.copytree(shoes/'model', tmp_path/'model')
    config = tmp_path/'model'/'config.json'
    if text is None: config.unlink()
    else: config.write_text(text)
    with pytest.raises(ValueError, match=DAMAGE[text]) as e: HubRetriever.from_pretrained(tmp_path/'model')
    assert '\n' not in str(e.value) and str(tmp_path/'model') in str(e.value)


@pytest.mark.parametrize('name', ['me/boots', 'nowhere/at/all', '/nowhere/at/all'])
def test_a_name_of_nothing_gives_a_line(name, tmp_path):
    with pytest.raises(ValueError, match=f'^{name}: no such folder') as e:
        HubRetriever.from_pretrained(name, cache_dir=tmp_path)
    assert '\n' not in str(e.value)


def test_items_without_a_model_are_not_fitted(shoes, tmp_path):
    for file in ('embeddings.npy', 'items.csv'): shutil.copy(shoes/file, tmp_path)
    with pytest.raises(ValueError, match='no model'): HubRetriever.from_pretrained(tmp_path)


def test_what_is_refused_loses_nothing(shoes, tmp_path, monkeypatch):
    hub = HubRetriever.from_pretrained(shoes/'model')
    (tmp_path/'taken').mkdir()
    (tmp_path/'taken'/'notes.txt').write_text('mine')
    shutil.copytree(shoes/'model', tmp_path/'old')
    with pytest.raises(ValueError): hub.save_pretrained(tmp_path/'taken')
    with pytest.raises(ValueError): hub.save_pretrained(tmp_path/'old', config=dict(a=1))
    def full(*a, **how): raise OSError('no space')
    monkeypatch.setattr('modit.serving.bundle.save_arrays', full)
    with pytest.raises(OSError): hub.save_pretrained(tmp_path/'old')
    assert contents(tmp_path/'taken') == {'notes.txt': b'mine'}
    assert contents(tmp_path/'old') == contents(shoes/'model')
