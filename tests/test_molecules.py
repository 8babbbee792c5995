"""Molecules and licence texts as domains, and a market in which labels are bought one by one."""
import numpy as np
import pandas as pd
import pytest

from conftest import corpus_of
from modit.repro.datasets.costly import _rule, _structure, embedded, make_licences, make_molecules
from modit.repro.datasets.costly import similarity, why_no_molecules
from modit.repro.ours.budget import agreement, in_each
from modit.repro.lib.budgets import (WalletLooks, Wallet, feedback, hunt, list_scores, lists, market,
                                           on_shelf, requests, told)
from modit.settings import load_settings

SMILES = ('CC(=O)Oc1ccccc1C(=O)O', 'CN1C=NC2=C1C(=O)N(C(=O)N2C)C', 'CC(C)Cc1ccc(cc1)C(C)C(=O)O', 'CCO')


@pytest.fixture(scope='module')
def s(): return load_settings('smoke')


@pytest.fixture(scope='module')
def corpus(s): return market(corpus_of('D3', s), s)


def test_similarity_is_rdkits():
    chem = pytest.importorskip('rdkit.Chem')
    from rdkit import DataStructs
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    bits = np.stack([_structure(x)[2] > 0 for x in SMILES]).astype(np.float32)
    made = [GetMorganGenerator(radius=2, fpSize=2048).GetFingerprint(chem.MolFromSmiles(x)) for x in SMILES]
    theirs = [[DataStructs.TanimotoSimilarity(a, b) for b in made] for a in made]
    assert np.allclose(similarity(bits, range(4)), theirs, atol=1e-6)


def test_a_scaffold_knows_neither_atoms_nor_handedness():
    pytest.importorskip('rdkit')
    pairs = [('C[C@H](N)c1ccccc1', 'CCc1ccncc1'), ('OC1CCCCC1', 'c1ccccc1Br'), ('CCCC', 'CO')]
    for a, b in pairs: assert _structure(a)[1] == _structure(b)[1]


def test_vectors_have_length_one():
    counts = np.random.default_rng(0).integers(0, 5, (300, 64))
    x = embedded(counts, 8).astype(np.float32)
    assert x.shape == (300, 8) and np.allclose(np.linalg.norm(x, axis=1), 1, atol=1e-2)


def test_a_folder_is_made_once(tmp_path):
    if why_no_molecules(): pytest.skip(why_no_molecules())
    with pytest.raises(ValueError, match='no molecules'): make_molecules('atoms', tmp_path)
    (tmp_path/'embeddings.npy').touch()
    assert make_molecules('molecules', tmp_path) == tmp_path and not (tmp_path/'items.csv').exists()
    with pytest.raises(ValueError, match='no licence texts'): make_licences('laws', tmp_path)
    assert make_licences('licences', tmp_path) == tmp_path and not (tmp_path/'items.csv').exists()


def test_a_curators_file_is_read_as_yaml_reads_it():
    yaml = pytest.importorskip('yaml')
    head = ('license_expression: mit OR\n    zlib\nrelevance: 100\n'
            'referenced_filenames:\n    - LICENSE.txt\nnotes: a: b')
    known, text = _rule(f'---\n{head}\n---\n\n See {{{{LICENSE}}}}\n\tof  --- MIT')
    theirs = yaml.safe_load(head.replace('a: b', '"a: b"'))
    assert set(known) == set(theirs) and known['license_expression'] == theirs['license_expression']
    assert known['notes'] == theirs['notes'] and text == 'See LICENSE of --- MIT'


def test_nothing_bought_in_advance_is_listed(corpus, s):
    purse = Wallet(corpus, 200)
    hunt(corpus, purse, 150, np.random.default_rng(1))
    assert purse.bought.sum() == 150 and on_shelf(corpus)[purse.bought].all()
    assert not (told(corpus, purse).attribute & ~purse.bought).any()
    cases = requests(corpus, 'item', s)
    ids = lists(corpus, corpus.items[cases.sequence[:, 0]], s.k, cases.sequence)
    assert not on_shelf(corpus)[ids].any()


def test_a_look_beyond_the_purse_sees_only_what_was_bought(corpus, s):
    purse = Wallet(corpus, 120)
    hunt(corpus, purse, 100, np.random.default_rng(1))
    before = purse.bought
    cases = requests(corpus, 'item', s)
    ids, _ = WalletLooks(corpus, on_shelf(corpus), purse=purse).look(
        corpus.items[cases.sequence[:, 0]], cases, 2*s.k)
    assert before[ids].all() and (purse.bought == before).all()


def test_feedback_lists_hold_no_seed_and_no_item_twice(corpus, s):
    cases = requests(corpus, 'pattern', s)
    for rounds in (0, 2):
        ids = feedback(corpus, cases, rounds, s.k)
        both = np.concatenate([ids, cases.sequence], 1)
        assert all(len({*row}) == s.k + s.prefix_len for row in both)
        assert list_scores(corpus, cases, ids).joint.between(0, 1).all()


def test_sets_that_disagree_are_named():
    columns = ['method', 'budget', 'estimate', 'low']
    def gained(*rows): return pd.DataFrame([x for x in rows for _ in range(2)], columns=columns)
    tests, costly = ('tested_10', 100, .2, .1), ('reranked', 100, .1, -.1)
    one = gained(tests, costly)
    same = in_each(dict(a=one, b=one))
    assert same.agree.all() and same.everywhere.sum() == 1 and 'disagree' not in agreement(same)
    other = gained(tests, ('reranked', 100, .3, .2), ('rule', 100, .3, .2))
    both = in_each(dict(a=one, b=other))
    assert len(both) == 2, 'a row that only one set has is not compared'
    assert both.loc['reranked', 100].agree == False # noqa: E712
    assert '(100)' in agreement(both).partition('disagree on')[2]
