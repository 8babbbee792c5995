"""Contracts of the repository: notebooks are the source, results follow from them, promises are kept."""
import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pandas as pd
import pytest
import yaml

import modit
from conftest import EXPERIMENTS, LIBRARY, PAGES, ROOT, copy_repository, run_nbdev, tracked_files
from modit.repro.report.looks import CONFIRMED, NOT_RUN, WORDS
from modit.stages import pipeline, reach, source, stages
from modit.repro.datasets.datasets import CLAIMED
from modit.repro.pages.page import COMMITTED, page_module
from modit.settings import Settings, load_settings
from modit.store import named
from modit.preference import SINGLE, Variant
from style import cells

GENERATED = ('__init__.py', '_modidx.py')
MODULES = [p for p in sorted((ROOT/'modit').rglob('*.py')) if p.name not in GENERATED]


# ---- notebooks are the source
def library_files(folder):
    "Contents of every module and page by relative path."
    found = [p for pattern in ('modit/**/*.py', 'nbs/**/*.ipynb') for p in folder.glob(pattern)]
    return {str(p.relative_to(folder)): p.read_bytes() for p in found}


def test_export_and_clean_change_nothing(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    before = library_files(copy)
    for p in copy.glob('modit/**/*.py'):
        if p.name not in GENERATED: p.unlink() # what no notebook exports does not come back
    run_nbdev(copy, 'nbdev-export', 'nbdev-clean')
    after = library_files(copy)
    differ = sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))
    assert not differ, f'run nbdev-export and nbdev-clean, then commit: {differ}'


def test_numbers_are_those_of_their_place():
    assert all(re.fullmatch(r'[0-2]\d\d_\w+', p.stem) for p in LIBRARY)
    assert all(re.fullmatch(r'[3-9]\d\d_\w+', p.stem) for p in EXPERIMENTS)
    numbers = [p.stem[:3] for p in PAGES]
    assert len(numbers) == len(set(numbers))


def test_no_file_that_is_read_can_run_code():
    risky = re.compile(r'\b(c?pickle|dill|joblib|shelve|marshal|allow_pickle|read_pickle|to_pickle'
                       r'|(?:torch|np|numpy)\.(?:load|save))\b(?!.*weights_only=True)')
    texts = {p: p.read_text('utf-8') for p in MODULES} | {p: '\n'.join(cells(p, 'code')) for p in PAGES}
    found = {p.name: sorted(set(risky.findall(text))) for p, text in texts.items() if risky.search(text)}
    assert not found, f'arrays and weights are kept as safetensors: {found}'


# ---- the method stands alone
CORE = """
vocabulary settings store rows sphere retrieval density patterns ordering block model flow training
evaluation pretrain sft candidates preference rounds
""".split()


@pytest.mark.parametrize('module', CORE)
def test_the_method_imports_nothing_but_itself(module):
    others = source.imports_in(module) - {*CORE}
    assert not others, f'{module} imports {others}: hand in what they do, or name it as module:function'


def test_folders_import_each_other_one_way():
    def folder(path): return path.relative_to(ROOT/'modit').parts[0] if path.parent != ROOT/'modit' else '.'
    arrows, files = {}, source._module_files()
    for path in MODULES:
        others = {folder(files[name]) for name in source.imported(path.read_text('utf-8'), path.parent)}
        arrows.setdefault(folder(path), set()).update(others - {folder(path)})
    assert not arrows['.'], 'the method imports no folder'
    assert not [name for name, others in arrows.items() if 'repro' in others], 'the library stands alone'
    TopologicalSorter(arrows).prepare()  # raises CycleError


# ---- settings
def test_results_of_a_profile_of_one_s_own_are_ignored_and_committed_ones_are_not():
    def ignored(*names):
        paths = [f'figures/{name}/new.md' for name in names]
        return subprocess.run(['git', 'check-ignore', *paths], cwd=ROOT, capture_output=True).returncode == 0
    assert ignored('smoke') and ignored('mine')
    assert not ignored(*COMMITTED, 'reported'), 'name every committed profile in .gitignore'


# ---- the store
FIELDS = frozenset(f.name for f in fields(Settings))
READ = set()  # names of settings, since it was last cleared


class Recording(Settings):
    "Settings that note which of them are read; `dataclasses.replace` copies without a note."
    def __getattribute__(self, name):
        caller = sys._getframe(1).f_globals['__name__']
        if name in FIELDS and caller != 'dataclasses': READ.add(name)
        return super().__getattribute__(name)


def recorded(s, monkeypatch):
    "The same settings, which note what is read of them, but for a key."
    def copied(s, kind): return kind(**{name: object.__getattribute__(s, name) for name in FIELDS})
    key = stages.stage_key
    monkeypatch.setattr(stages, 'stage_key', lambda s, *stage: key(copied(s, Settings), *stage))
    return copied(s, Recording)


BRIEF = dict(pretrain_steps=4, train_rows=(48,)*4, hppo_cases=240, hppo_steps=2, off_policy_steps=(1, 2, 3),
             valid_cases=8)


@contextmanager
def functions_that_run():
    "File, line and name of the functions of modit that a stage runs; not what other stages do for it."
    files = {str(path): name for name, path in source._module_files().items()}
    ends = [named(f'modit.{word}').__code__ for word in reach.ENDS if ':' in word]
    left_out = {*source.NO_NUMBERS, *reach.ENDS}
    ran, inside = set(), []

    def look(frame, event, _):
        code = frame.f_code
        if code in ends and event == 'call': inside.append(code)
        elif code in ends and event == 'return': inside.pop()
        elif event == 'call' and not inside and files.get(code.co_filename, 'settings') not in left_out:
            if code.co_name != '<module>': ran.add((code.co_filename, code.co_firstlineno, code.co_qualname))
    sys.setprofile(look)
    try: yield ran
    finally: sys.setprofile(None)


def lines_of(module, name):
    "File and lines of what a key holds of a module under a name."
    nodes = [(module, x) for x in reach.contents(module).names.get(name, ())] + reach._added(module, name)
    def start(x): return min(y.lineno for y in [x, *getattr(x, 'decorator_list', [])])
    return {(str(source.module_file(home)), line) for home, x in nodes
            for line in range(start(x), x.end_lineno + 1)}


def not_held(s, stage, ran):
    "Names of functions that ran, and that the key of a stage does not hold."
    held = set().union(*(lines_of(*x) for x in reach.reached(*stages.functions_of(s, stage)) if x[0]))
    return {name for file, line, name in ran if (file, line) not in held}


def test_a_stage_runs_the_code_and_reads_the_settings_of_its_key(tmp_path, monkeypatch):
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path))
    s = load_settings('smoke', **BRIEF)
    recording = recorded(s, monkeypatch)
    seen = set() # of labelled_2, labelled_8 and so on the functions are the same
    for name in s.domains: pipeline.make_stage(s, 'corpus', name)
    for name, stage in stages.STAGES.items():
        domain = None if stage.shared else 'D1'
        path = pipeline.stage_path(s, name, domain)
        path.unlink(missing_ok=True)
        longer = getattr(stages.VARIANTS.get(name), 'extends', '')  # its rounds would be taken over
        if longer: pipeline.stage_path(s, longer, domain).unlink(missing_ok=True)
        maker, kind = pipeline.named(stage.maker), (name.split('_')[0], *stages.functions_of(s, name))
        READ.clear()
        with nullcontext(()) if kind in seen else functions_that_run() as ran:
            maker(recording, name, domain, path)
        seen.add(kind)
        found, told = READ - set(stages.UNKEYED), set(stage.reads)
        assert found == told, f'{name} reads {found - told}, and does not read {told - found}'
        missed = not_held(s, name, ran)
        assert not missed, f'the key of {name} does not hold {missed}, which it runs'


@pytest.fixture
def stage_keys(tmp_path, monkeypatch):
    "The key of every stage, and the folder of a copy of the modules that keys are made from."
    copy = copy_repository(tmp_path/'modit')/'modit'
    memory = [f for x in (source, reach) for f in vars(x).values() if hasattr(f, 'cache_clear')]
    monkeypatch.setattr(stages, '_KEYS', {})
    monkeypatch.setattr(source, 'PACKAGE', copy)
    monkeypatch.setattr(ast, 'parse', cache(ast.parse)) # most modules stay as they are
    def forget(): # as a process that begins
        for function in memory: function.cache_clear()
        stages._KEYS.clear()
        texts = {path: path.read_text('utf-8') for path in sorted(copy.rglob('*.py'))}
        monkeypatch.setattr(modit, 'SOURCES', texts)
    def keys(**changes):
        forget()
        s = load_settings('smoke', **changes)
        domains = {name: None if stage.shared else 'D1' for name, stage in stages.STAGES.items()}
        return {name: stages.stage_key(s, name, domain) for name, domain in domains.items()}
    yield keys, copy
    monkeypatch.undo()
    for function in memory: function.cache_clear()


def change_words(path):
    "Put a comment and a word more into every docstring of a module."
    text = path.read_text('utf-8')
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or not ast.get_docstring(node): continue
        said = ast.get_source_segment(text, node.body[0])
        mark = '"""' if said.endswith('"""') else said[-1]
        text = text.replace(said, f'{said.removesuffix(mark)} Indeed.{mark}  # a comment', 1)
    path.write_text(f'# another comment\n{text}\n', 'utf-8')


def test_a_key_sees_what_code_does_and_not_its_words(stage_keys):
    keys, copy = stage_keys
    before = keys()
    for name in ('sphere', 'flow', 'training', 'rounds'): change_words(copy/f'{name}.py')
    assert 'Indeed.' in (copy/'rounds.py').read_text('utf-8')
    for name, old, new in (('repro/ours/labelled', "'2% of the pool'", "'a part'"),
                           ('preference', "'Pareto'", "'Filter'"),
                           ('preference', '    extends: str', '    weight: float = 1.\n    extends: str'),
                           ('evaluation', 'def direction_auc(', 'ANOTHER = 1\ndef direction_auc(')):
        edit(copy/f'{name}.py', old, new)
    assert keys() == before, 'words, a label, a field that no row sets or code of others would train again'
    (copy/'direct.py').rename(copy/'straight.py')
    for name in ('stages/pipeline', 'repro/lib/evidence', 'repro/leaderboard/trained', 'repro/ours/direct'):
        edit(copy/f'{name}.py', '..direct import', '..straight import')
    assert keys() == before, 'a module that moves would train models again'


def edit(path, old, new):
    text = path.read_text('utf-8')
    assert old in text, f'{path} has no {old}'
    path.write_text(text.replace(old, new), 'utf-8')


LABELLED = {x for x in stages.STAGES if x.startswith('labelled_')}
PREFERRED = {*stages.VARIANTS}
EDITS = { # of one constant: the stages that run it; those that are made from them follow
    ('data/synth', "c['gap']*world", "2*c['gap']*world"): {'domain', 'pretrained'},
    ('density', 'return (x @ ', 'return 2*(x @ '): {'corpus', 'proxy'},
    ('sft', "'sft', ", "'sft', 1, "): {'sft', 'sft_single', 'apart'},
    ('candidates', "other, name)], 1)", "other, name)], 2)"): {'pool', *PREFERRED, *LABELLED},
    ('preference', 'margin - 1e-9', 'margin - 1e-8'): {*PREFERRED, *LABELLED, 'bank'},
    ('preference', 'return losers.sum()', 'return 2*losers.sum()'): {*PREFERRED, *LABELLED},
    ('rounds', 'PATIENCE = 2', 'PATIENCE = 3'): {*PREFERRED, *LABELLED},
    ('direct', 'warmup_ratio=.05', 'warmup_ratio=.06'): {'direct'},
    ('baselines', 'PROBE_ETAS = (', 'PROBE_ETAS = (0, '): {'hybrid_probe'},
    ('repro/paper/negative', 'BANK = 20', 'BANK = 21'): {'local'}}


def test_a_changed_constant_moves_the_stages_that_run_it(stage_keys):
    keys, copy = stage_keys
    before = keys()
    for (name, old, new), ran in EDITS.items():
        text = (copy/f'{name}.py').read_text('utf-8')
        edit(copy/f'{name}.py', old, new)
        after, moved = keys(), set(ran)
        for stage, row in stages.STAGES.items(): # parents come first
            above = {'corpus' if x == 'corpora' else x for x in row.parents}
            if above & moved: moved.add(stage)
        assert {x for x in before if before[x] != after[x]} == moved, f'{name}: {new}'
        (copy/f'{name}.py').write_text(text, 'utf-8')


USUAL = dict(backbone='modit.model:MODiT', loss='modit.preference:logistic')


@pytest.mark.parametrize('what', USUAL)
def test_a_function_of_one_s_own_is_in_the_key_with_its_source(stage_keys, what, tmp_path, monkeypatch):
    keys, _ = stage_keys
    monkeypatch.syspath_prepend(tmp_path)
    def write(name, text): (tmp_path/f'{name}.py').write_text(text, 'utf-8')
    def key_with(word):
        if what == 'backbone': return keys(backbone=word)['pretrained']
        pareto = replace(stages.VARIANTS['pareto'], loss=word)
        with monkeypatch.context() as m:
            m.setattr(stages, 'VARIANTS', dict(stages.VARIANTS, pareto=pareto))
            return keys()['pareto']
    for name in ('mine', 'theirs'): write(name, 'def net(*x): return 1\n')
    mine = key_with('mine:net')
    assert len({mine, key_with('theirs:net'), key_with(USUAL[what])}) == 3
    write('mine', '# a comment\ndef net(*x): return 1\n')
    assert key_with('mine:net') == mine
    write('mine', 'def net(*x): return 2\n')
    assert key_with('mine:net') != mine


CODE = """
import ast, hashlib, sys, types
bars = sys.modules['tqdm'] = types.ModuleType('tqdm') # another Python may have no package at all
bars.std = types.SimpleNamespace(tqdm=type('tqdm', (), {}))
from modit.stages.source import code_of, imports_of, meaning
print('%d.%d' % sys.version_info[:2], hashlib.sha256(meaning(sys.argv[1]).encode()).hexdigest())
print(hashlib.sha256(''.join(map(code_of, imports_of('sft', 'rounds', 'data.synth'))).encode()).hexdigest())
"""
SMALL = """
class A(B):
    "Words."
    @property
    def f(self, *a, x:int=-1, **k) -> str: return f'{x!r:>{a[0]}} of ' 'all' f"{k['y']:.2f}"
async def g(): return [y := 1, *(z async for z in h() if not z)], {**w}, lambda: None, b'\\x00', 'é', 1e300
match x:
    case [1, *_] | {'a': None}: del x[1:2, ...]
"""
MEANT = '52b3ef5f8be343a0c82987dfed11e3018d8bc3381e4c2636dba972d095fa46c0' # digest of its meaning


def test_code_has_one_text_under_every_python():
    homes = Path.home()/'.pyenv'/'versions'
    there = [shutil.which(f'python3.{i}') for i in range(11, 16)]
    there += [os.environ.get('PYTHON_OTHER'), *sorted(homes.glob('3.1[1-9]*/bin/python'))]
    said = {}
    for python in filter(None, [sys.executable, *there]):
        run = subprocess.run([python, '-B', '-c', CODE, SMALL], cwd=ROOT, capture_output=True, text=True,
                             env=os.environ | dict(PYTHONPATH=str(ROOT), PYTHONUTF8='1'))
        if run.returncode: continue # a Python that cannot read the package
        version, text = run.stdout.split(maxsplit=1)
        said[version] = text
    assert len(set(said.values())) == 1, 'under another Python everything would be trained again'
    assert said['%d.%d' % sys.version_info[:2]].split('\n')[0] == MEANT, 'code is spelled in another way'


def test_code_that_changed_on_disk_makes_no_stage(stage_keys):
    keys, copy = stage_keys
    keys()
    words = stages.functions_of(load_settings('smoke'), 'sft')
    edit(copy/'rounds.py', 'PATIENCE = 2', 'PATIENCE = 3')
    change_words(copy/'flow.py')
    reach.refuse_changed(*words)
    edit(copy/'sft.py', "'sft', ", "'sft', 1, ")
    with pytest.raises(ValueError, match=r'sft\.py has changed .*; restart'): reach.refuse_changed(*words)


def test_modules_name_what_they_use_so_that_keys_see_it():
    for path in MODULES:
        for x in ast.walk(ast.parse(path.read_text('utf-8'))):
            words = [y.name for y in x.names] if isinstance(x, ast.Import | ast.ImportFrom) else []
            hidden = '*' in words or isinstance(x, ast.Import) and any(w.startswith('modit.') for w in words)
            assert not hidden, f'{path}: import names of modules: from module import name'
    assert all(callable(named(f'modit.{word}')) for word in reach.ENDS if ':' in word)


def test_a_row_of_one_round_needs_its_list_of_steps():
    with pytest.raises(ValueError, match=r'VARIANTS, Mine: .*; write \*\*SINGLE'): Variant('Mine', rounds=1)
    assert Variant('Mine', **SINGLE).steps == 'off_policy_steps'


# ---- what is promised is there
def test_what_texts_name_is_there():
    "Their links are followed in test_texts.py."
    targets = set(re.findall(r'^([a-z]+):', (ROOT/'Makefile').read_text('utf-8'), re.M))
    for path in (p for p in tracked_files() if p.suffix == '.md'):
        text = (ROOT/path).read_text('utf-8')
        for block in re.findall(r'^```(?:bash|sh)\n(.*?)^```', text, re.M | re.S):
            asked = {*re.findall(r'^\s*(?:\w+=\w+ +)*make +([a-z]+)', block, re.M)}
            assert asked <= targets, f'{path}: make {asked - targets}'
        for page in re.findall(r'\bnbs/(?:[a-z]+/)*\d\w+\.ipynb', text):
            assert (ROOT/page).exists(), f'{path} names {page}, which is not there'


def test_every_claim_has_a_verdict_and_a_page_that_judges_it():
    claims, ours, public = (pd.read_csv(ROOT/'figures'/name/'claims.csv').sort_values('id', ignore_index=True)
                            for name in ('reported', 'mini', 'public'))
    assert ours[['id', 'statement']].equals(claims[['id', 'statement']]), 'run make figures'
    assert claims.id.is_unique and set(ours.verdict) <= {*WORDS, NOT_RUN.label}
    of = claims.groupby('scale').id.agg(set)
    assert of['public'] == set(public.id[public.cells > 0]) - of['theory']
    pages = {page: Path(page_module(page).__file__).read_text('utf-8') for page in set(claims.page)}
    assert not [r.id for r in claims.itertuples() if not re.search(rf"{r.id}['=]", pages[r.page])]


@pytest.mark.parametrize('folder', ['mini', 'mini/runs/seed=1', *CLAIMED])
def test_a_word_is_what_its_cells_say(folder):
    claims, cells = (pd.read_csv(ROOT/'figures'/folder/f'{name}.csv') for name in ('claims', 'claim-cells'))
    for r in claims[claims.cells > 0].itertuples():
        verdicts = cells.verdict[cells.id == r.id].tolist()
        found = len(verdicts), verdicts.count('for'), verdicts.count('against')
        assert found == (r.cells, r.significant, r.against), r.id
        assert (r.verdict == WORDS[2]) == (r.against > r.significant), r.id
        if r.verdict == CONFIRMED: assert 2*r.significant > r.cells or r.id == 'C30', r.id


def test_every_claim_that_is_not_confirmed_has_a_reason():
    ours = pd.read_csv(ROOT/'figures'/'mini'/'claims.csv')
    wanting = ours[~ours.verdict.isin([CONFIRMED, NOT_RUN.label])]
    given = pd.read_csv(ROOT/'figures'/'reported'/'reasons.csv')
    assert given.claim.is_unique and {*given.claim} == {*wanting.id}, 'a reason for each, and for no other'
    assert not given.isna().any(axis=None)


def test_committed_domains_are_those_of_the_manifest():
    for name, facts in json.loads((ROOT/'data_synth'/'manifest.json').read_text('utf-8')).items():
        found = hashlib.sha256((ROOT/'data_synth'/name).read_bytes()).hexdigest()
        assert found == facts['sha256'], f'data_synth/{name} changed; a frozen domain is not edited'


BINARY = ('.safetensors', '.npy', '.png', '.gz', '.pdf')


def test_no_machine_paths():
    machine = re.compile(r'(?<![\w.])/(?:work|root|home/\w+|Users/\w+|tmp)/\w+')
    found = []
    for path in tracked_files():
        if path.suffix in BINARY or path.parent.name == 'tests': continue
        for i, line in enumerate((ROOT/path).read_text('utf-8').splitlines(), 1):
            if len(line) < 5000 and machine.search(line): found.append(f'{path}:{i}')
    assert not found, found


def test_everything_installed_is_pinned():
    pinned = {re.sub(r'[-_.]+', '-', line.split('==')[0]).lower() for line in
              (ROOT/'requirements.lock').read_text('utf-8').splitlines()}
    wanted = re.findall(r'^    "([\w-]+)[><=]', (ROOT/'pyproject.toml').read_text('utf-8'), re.M)
    assert wanted and not [w for w in wanted if w.lower() not in pinned]


# ---- it can be cited
PACKAGE = tomllib.loads((ROOT/'pyproject.toml').read_text('utf-8'))['project']
CITATION = yaml.safe_load((ROOT/'CITATION.cff').read_text('utf-8'))


def test_version_and_licence_agree():
    newest = re.search(r'^## (.*)$', (ROOT/'CHANGELOG.md').read_text('utf-8'), re.M)[1]
    assert re.fullmatch(rf'{re.escape(PACKAGE["version"])}, (not released|\d{{4}}-\d\d-\d\d)', newest)
    assert modit.__version__ == PACKAGE['version'] == CITATION.get('version', PACKAGE['version'])
    assert CITATION['license'] == PACKAGE['license']


def test_every_folder_of_data_has_a_licence():
    rows = re.findall(r'^\| (.*?) \|', (ROOT/'DATA_LICENSES.md').read_text('utf-8'), re.M)
    named = {name for row in rows for name in re.findall(r'`([\w/-]+)/`', row)}
    assert named == {'data_synth', 'data_public', 'figures', 'figures/reported'}
