"""The wheel in an empty environment and an empty folder: check, evaluate, expand and query work there."""
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pandas as pd
import pytest
from test_extras import canonical, installed_by

from conftest import ROOT, copy_repository

pytestmark = pytest.mark.slow
RUNNING = f'{sys.version_info.major}.{sys.version_info.minor}'
TRAIN = ('torch', 'accelerate')
NOTEBOOKS = ('papermill', 'nbdev', 'jupyterlab', 'ipykernel', 'nbclient', 'snakemake', 'matplotlib')

METHOD = """
import modit
s = modit.load_settings('smoke')
assert len(modit.prepare_corpus(modit.synthetic_domain(s, 'D3'), s).items) == s.of('items', 'D3')
"""


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
    "An environment with the wheel and what it asks for, linked from here; or fetched, with torch."
    run([python, '-m', 'venv', '--without-pip', folder], folder.parent)
    pip = [sys.executable, '-m', 'pip', '--python', folder/'bin'/'python', 'install', '-q']
    fetched = '--no-cache-dir', '-c', ROOT/'requirements.lock', f'{wheel}[train]'
    if python != sys.executable: run([*pip, *fetched], ROOT)
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


@pytest.fixture
def icons(tmp_path):
    "The committed icons in an empty folder, and three seeds of a word of which no icon has a label."
    place = tmp_path/'place'
    place.mkdir()
    shutil.copytree(ROOT/'data_public'/'icons-small', place/'icons')
    table = pd.read_csv(place/'icons'/'items.csv', dtype=str, keep_default_na=False)
    right = table[(table.filled == '1') & (table.attribute == '') & ~table.word.isin(table.pattern)]
    (place/'seeds.txt').write_text('\n'.join(right.id[right.word == right.word.iloc[0]][:3]), 'utf-8')
    return place


def test_the_tool_in_an_empty_folder(env, icons, tmp_path):
    assert 'beats averaging' in run([env/'modit', 'check', 'icons'], icons)
    assert run([env/'modit', 'evaluate', 'icons'], icons).startswith('new patterns: averaging ')
    lines = run([env/'modit', 'expand', 'icons', '--seeds', 'seeds.txt', '--k', 5], icons).splitlines()
    assert lines[0].startswith('id\tscore') and len(lines) == 6
    code = "import modit; seeds = open('seeds.txt').read().split(); "
    code += "print(*modit.Retriever.of('icons').expand(seeds, k=5).id)"
    assert run([env/'python', '-c', code], icons).split() == [line.split('\t')[0] for line in lines[1:]]
    assert 'search by cosine' in run([env/'modit', 'query', 'icons', '--seeds', 'seeds.txt'], icons)
    assert sorted(os.listdir(icons)) == ['icons', 'seeds.txt'], 'what is stored lies beside the embeddings'


def test_the_method_runs_with_torch_and_asks_for_it_without(env, tmp_path):
    code = f'from importlib.util import find_spec; print([x for x in {NOTEBOOKS + TRAIN} if find_spec(x)])'
    there = run([env/'python', '-c', code], tmp_path).strip()
    if there == str([*TRAIN]): return run([env/'python', '-c', METHOD], tmp_path)
    assert there == '[]', there
    wanted = " needs torch: pip install 'modit[train]'\n"
    assert run([env/'python', '-c', METHOD], tmp_path, fails=True).endswith(f'modit.prepare_corpus{wanted}')
    assert run([env/'modit', 'stage', 'sft', 'D3'], tmp_path, fails=True) == f'modit: modit stage{wanted}'


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
    train=['-c', METHOD],
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
