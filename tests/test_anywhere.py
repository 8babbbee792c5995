"""The wheel in an empty environment and an empty folder: check, fit, evaluate and expand work there."""
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from test_extras import canonical, installed_by

from conftest import ROOT, copy_repository
from modit.data.folder import write_folder
from modit.data.synth import make_domain, make_world
from modit.settings import load_settings

pytestmark = pytest.mark.slow
RUNNING = f'{sys.version_info.major}.{sys.version_info.minor}'
TINY = '{"pretrain_steps": 4, "train_rows": [32], "hppo_cases": 16, "full_cases": 20}'
NOTEBOOKS = ('papermill', 'nbdev', 'jupyterlab', 'ipykernel', 'nbclient', 'snakemake', 'matplotlib')


def run(command, cwd, fails=False, **words):
    "What a command prints, its messages behind it, without this checkout in its way."
    env = {k: v for k, v in os.environ.items() if k not in ('PYTHONPATH', 'MODIT_RUNS', 'VIRTUAL_ENV')}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, **words)
    assert bool(done.returncode) == fails, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
    copy, out = tmp_path_factory.mktemp('source'), tmp_path_factory.mktemp('wheel')
    options = ('-q', '--no-deps', '--no-build-isolation', '--no-index', '-w', out)
    run([sys.executable, '-m', 'pip', 'wheel', *options, copy_repository(copy/'modit')], out)
    [path] = out.glob('*.whl')
    return path


def link_dependencies(python, extra=''):
    "Link what the wheel asks for to what is installed here; the folder of packages that it then has."
    site = Path(run([python, '-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'], ROOT).strip())
    here = Path(sysconfig.get_path('purelib'))
    names = installed_by(extra) & {canonical(x.name) for x in distributions()} - {'modit'}
    tops = {file.parts[0] for name in names for file in distribution(name).files if file.parts[0] != '..'}
    for top in tops - {'__pycache__'}:
        if not (site/top).exists(): (site/top).symlink_to(here/top)
    return site


def env_of(python, wheel, folder):
    "An environment with the wheel and what it asks for, linked to what is installed here or fetched."
    run([python, '-m', 'venv', '--without-pip', folder], folder.parent)
    pip = [sys.executable, '-m', 'pip', '--python', folder/'bin'/'python', 'install', '-q']
    if python != sys.executable: run([*pip, '--no-cache-dir', '-c', ROOT/'requirements.lock', wheel], ROOT)
    else:
        run([*pip, '--no-deps', '--no-index', wheel], ROOT)
        link_dependencies(folder/'bin'/'python')
    return folder/'bin'


def runs_as(version):
    "The path of another Python that starts; a name in PATH may be a wrapper that finds none."
    found = shutil.which(f'python{version}')
    code = 'import ensurepip, sys; print(sys.executable)'
    done = found and subprocess.run([found, '-c', code], capture_output=True, text=True)
    return done.stdout.strip() if done and not done.returncode else None


@pytest.fixture(scope='module', params=['3.11', '3.13'])
def env(request, wheel, tmp_path_factory):
    "The folder of an environment's commands; another Python than this one fetches up to 5 GB."
    other = runs_as(request.param)
    if request.param != RUNNING and not (other and os.environ.get('MODIT_FETCH')):
        pytest.skip(f'no Python {request.param}, or its packages may not be fetched: set MODIT_FETCH=1')
    python = sys.executable if request.param == RUNNING else other
    folder = tmp_path_factory.mktemp('env')
    yield env_of(python, wheel, folder/'env')
    shutil.rmtree(folder)


@pytest.fixture(scope='module')
def empty(tmp_path_factory):
    "A folder with a folder of embeddings, and nothing else of ours."
    s, place = load_settings('smoke'), tmp_path_factory.mktemp('empty')
    domain = make_domain(make_world(s), 'D1', s)
    write_folder(place/'shoes', domain.items, np.arange(len(domain.items)), domain.attribute)
    return place


def test_four_commands_in_an_empty_folder(env, empty, tmp_path):
    place = shutil.copytree(empty, tmp_path/'place')
    assert 'settings for it are in' in run([env/'modit', 'check', 'shoes', '--profile', 'smoke'], place)
    said = run([env/'modit', 'fit', 'shoes', '--profile', 'smoke', '--overrides', TINY], place)
    assert 'model in' in said and '%|' not in said
    assert sorted(os.listdir(place)) == ['modit-runs', 'shoes']
    handed = tmp_path/'handed'/'on'
    handed.parent.mkdir()
    shutil.move(place/'shoes'/'model', handed)
    elsewhere = shutil.move(place/'shoes', tmp_path/'moved')
    shutil.rmtree(place)
    nowhere = tmp_path/'nowhere'
    nowhere.mkdir()
    scores = run([env/'modit', 'evaluate', handed, '--items', elsewhere], nowhere)
    assert 'served - average' in scores and 'served - untrained' in scores
    command = [env/'modit', 'expand', handed, '--items', elsewhere, '--seeds', '-', '--k', 5]
    lines = run(command, nowhere, input='1\n2\n').splitlines()
    assert sum(line[0].isdigit() for line in lines) == 5
    assert not os.listdir(nowhere), 'the store lies beside the folder'


def test_a_settings_file_above_goes_first_and_is_named(env, empty, tmp_path):
    place = shutil.copytree(empty, tmp_path/'place')
    text = (ROOT/'settings.ini').read_text('utf-8').replace('[smoke]', '[own]')
    (tmp_path/'settings.ini').write_text(text, 'utf-8')
    said = run([env/'modit', 'check', 'shoes', '--profile', 'own'], place)
    assert said.count(f'modit: settings are those of {tmp_path/"settings.ini"}') == 1
    (tmp_path/'settings.ini').write_text('[DEFAULT]\nlib_name = another project\n', 'utf-8')
    assert 'settings are' not in run([env/'modit', 'check', 'shoes', '--profile', 'smoke'], place)


def test_the_method_runs_without_notebook_machinery(env, tmp_path):
    code = "import modit; s = modit.load_settings('smoke'); print(len(modit.synthetic_domain(s, 'D3').items))"
    assert run([env/'python', '-c', code], tmp_path).strip() == str(load_settings('smoke').of('items', 'D3'))
    code = f'from importlib.util import find_spec; print([x for x in {NOTEBOOKS} if find_spec(x)])'
    assert run([env/'python', '-c', code], tmp_path).strip() == '[]'


def test_what_works_on_the_repository_asks_for_a_clone(env, tmp_path):
    for words in ('figures', 'run main', 'sweep main seed=1', 'main'):
        said = run([env/'modit', *words.split()], tmp_path, fails=True)
        assert said.count('\n') == 1 and 'clone' in said, said
    assert not os.listdir(tmp_path)


# What an extra promises, in an environment that has no other; those that only import are in test_extras.py.
PARQUET = """
import os
from pathlib import Path
import numpy as np, pandas as pd
from modit.data.folder import items_table, write_folder
write_folder('shoes', np.eye(40, 8, dtype='float32') + .1, range(40), np.arange(40) % 2)
pd.read_csv('shoes/items.csv').to_parquet('shoes/items.parquet')
os.remove('shoes/items.csv')
assert len(items_table(Path('shoes'))) == 40
"""
DRAWN = """
from modit.repro.datasets import costly, encoders, icons, public
import PIL, rdkit, resvg_py, tokenizers
"""
SEARCHED = """
import numpy as np
from modit.index.milvus import MilvusIndex
print(len(MilvusIndex(np.eye(9, dtype='float32'), 'here.db').search(np.eye(9, dtype='float32')[:2], 3)[1]))
"""
WRITTEN = "from modit.repro.report.article import write_report; write_report()"
ALONE = dict(
    parquet=['-c', PARQUET], milvus=['-c', SEARCHED], public=['-c', DRAWN], report=['-c', WRITTEN],
    run=['-m', 'modit.cli.command', 'run', '310_density', '--profile', 'smoke', '--fresh'])


@pytest.mark.parametrize('extra', ALONE)
def test_an_extra_alone_runs_what_it_promises(extra, wheel, tmp_path):
    if extra == 'report' and not find_spec('typst'): pytest.skip('typst is not installed')
    folder, place = tmp_path/'env', tmp_path/'modit'
    run([sys.executable, '-m', 'venv', '--without-pip', folder], tmp_path)
    with ZipFile(wheel) as files: files.extractall(link_dependencies(folder/'bin'/'python', extra))
    if extra in ('run', 'report', 'public'): copy_repository(place) # its modules are of a clone
    else: place.mkdir()
    run([folder/'bin'/'python', *ALONE[extra]], place)
