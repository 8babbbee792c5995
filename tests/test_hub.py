"""A model's folder under the names of the Hub: the same files and lists, without the network."""
import shutil
import socket
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from conftest import contents, write_shoes
from modit.serving.fit import fit
from modit.serving.hub import HubRetriever


@pytest.fixture(scope='module')
def shoes(home):
    "A folder with its model, trained for a few steps."
    fit(write_shoes(home/'shoes'), 'smoke', direct_steps=4, direct_checkpoints=[])
    return home/'shoes'


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*a, **how): raise AssertionError(f'the network was asked: {a}')
    for name in ('getaddrinfo', 'create_connection'): monkeypatch.setattr(socket, name, refuse)
    for name in ('connect', 'connect_ex'): monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)  # as HF_HUB_OFFLINE=1 at the start


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
    assert hub.model is not None # the trained policy is there
    assert hub.push_to_hub('me/shoes') == 'address' and sent == {'me/shoes': contents(shoes/'model')}


def test_sending_may_follow_writing(shoes, tmp_path, monkeypatch):
    monkeypatch.setattr(HubRetriever, 'push_to_hub', lambda self, repo_id, **how: (repo_id, how))
    hub = HubRetriever.from_pretrained(shoes/'model')
    sent = hub.save_pretrained(tmp_path/'boots', push_to_hub=True, private=True)
    assert sent == ('boots', dict(private=True))
    assert contents(tmp_path/'boots') == contents(shoes/'model')


def test_items_without_a_model_are_not_fitted(shoes, tmp_path):
    for file in ('embeddings.npy', 'items.csv'): shutil.copy(shoes/file, tmp_path)
    with pytest.raises(ValueError, match='no model') as e: HubRetriever.from_pretrained(tmp_path)
    assert '\n' not in str(e.value) and str(tmp_path) in str(e.value)


def test_a_full_disk_loses_nothing(shoes, tmp_path, monkeypatch):
    hub = HubRetriever.from_pretrained(shoes/'model')
    shutil.copytree(shoes/'model', tmp_path/'old')
    def full(*a, **how): raise OSError('no space')
    monkeypatch.setattr('modit.serving.bundle.save_arrays', full)
    with pytest.raises(OSError): hub.save_pretrained(tmp_path/'old')
    assert contents(tmp_path/'old') == contents(shoes/'model')
