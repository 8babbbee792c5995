"""Training on several processes: two end as one, a bad loss stops both, a checkpoint is anyone's."""
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from conftest import HANG, ROOT, environment, run_apart
from modit.model import new_model
from modit import training
from modit.stages import pipeline
from modit.settings import load_settings
from modit.store import load_arrays

slow = pytest.mark.slow # two processes
TWO = ('-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2')
HALF = dict(pretrain_micro_batch=16, cpt_micro_batch=16, sft_micro_batch=16)  # of 32: what each of two takes
TINY = dict(pretrain_steps=6, train_rows=[64, 32, 32, 32], repetition=[1]*4, hppo_steps=4)
ALONE = dict(ACCELERATE_USE_CPU='true', CUDA_VISIBLE_DEVICES='')


def start(script, code, runs, *words, two=True):
    "A text of Python on a CPU, in two processes under a launcher or in one, with a store of its own."
    if not two: return run_apart(code, *words, MODIT_RUNS=runs, **ALONE)
    script.write_text(code, 'utf-8')
    where = environment(ROOT) | ALONE | dict(MODIT_RUNS=str(runs))
    for name in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK'): where.pop(name, None)
    command = [sys.executable, *TWO, str(script), *map(str, words)]
    return subprocess.run(command, cwd=ROOT, env=where, capture_output=True, text=True, timeout=HANG)


def done(*given, **how):
    run = start(*given, **how)
    assert run.returncode == 0, run.stderr[-3000:]
    return run


STAGES = """
import sys
from modit.cli.command import main
for stage in ("adaptive", "direct"):
    main(["stage", stage, "D4", "--profile", "smoke", "--overrides", sys.argv[1]])
"""


@pytest.fixture(scope='module')
def stores(tmp_path_factory):
    "A preference run, direct rewards, and all before them: made by one process, and by two."
    one, two = (tmp_path_factory.mktemp(name) for name in ('one', 'two'))
    script, given = one/'stages.py', json.dumps(TINY | HALF)
    with ThreadPoolExecutor(1) as pool:
        alone = pool.submit(done, script, STAGES, one, given, two=False)
        both = done(script, STAGES, two, given)
    alone.result()
    said = both.stdout
    assert said.count('adaptive D4: done') == said.count('direct D4: done') == 1, 'the first speaks for both'
    return one/'smoke', two/'smoke'


def of_stage(folder, stage):
    "Arrays and facts of a stage's one result, not of its rounds."
    return load_arrays(*folder.glob(f'{stage}-{"?"*12}.safetensors'))


@slow
@pytest.mark.parametrize('stage', ['corpus-D4', 'pretrained', 'cpt', 'sft-D4', 'pool-D4'])
def test_two_processes_end_with_the_bits_of_one(stores, stage):
    # each takes a micro-batch, and one process adds the same two: no sum has another order
    (alone, facts), (shared, same) = (of_stage(folder, stage) for folder in stores)
    assert facts == same and facts.get('losses', [1.]) != []
    assert alone.keys() == shared.keys() and all(np.array_equal(alone[k], shared[k]) for k in alone)


@slow
def test_preference_rounds_of_two_processes_follow_those_of_one(stores):
    # a preference batch is one micro-batch, which two processes cut: sums have another order
    # so the first round learns from the same pairs, and its losses differ by rounding; what comes after it
    # may hang on a label that rounding has moved
    (_, facts), (_, same) = (of_stage(folder, 'adaptive-D4') for folder in stores)
    assert len(facts['history']) == len(same['history']) > 1 and facts['history'][0] == same['history'][0]
    row, other = facts['history'][1], same['history'][1]
    assert np.allclose(row.pop('losses'), other.pop('losses'), atol=1e-4, rtol=0)
    assert abs(row.pop('valid_joint') - other.pop('valid_joint')) < .02
    assert abs(row.pop('valid_same') - other.pop('valid_same')) < .02 and row == other and row['kept']


@slow
def test_direct_rewards_of_two_processes_follow_those_of_one(stores):
    # as above; each process labels and counts what its half of the batch retrieves
    (_, facts), (_, same) = (of_stage(folder, 'direct-D4') for folder in stores)
    losses, others = (x['history'][-1]['losses'] for x in (facts, same))
    assert len(losses) > 1 and np.allclose(losses[:3], others[:3], atol=1e-4, rtol=0)
    assert facts['history'][-1]['lookups'] == 2*same['history'][-1]['lookups']


@slow
def test_whoever_makes_a_stage_the_store_looks_alike(stores):
    names = [sorted(str(p.relative_to(folder)) for p in folder.rglob('*')) for folder in stores]
    assert names[0] == names[1] and not [name for name in names[0] if 'work' in name]


RESUME = """
import sys
from modit.data.synth import synthetic_sessions
from modit.pretrain import pretrain
from modit.settings import load_settings
from modit.training import processes, save_checkpoint

s, root = load_settings('smoke', pretrain_steps=6, checkpoint_every=2), sys.argv[2]

def killed_in_step_5():
    draw, drawn = synthetic_sessions(s), []
    def some(rng):
        drawn.append(rng)
        if len(drawn) > 5: raise KeyboardInterrupt
        return draw(rng)
    return some

def begin(folder):
    try: pretrain(killed_in_step_5(), s, f'{root}/{folder}')
    except KeyboardInterrupt: pass

def finish(folder, name):
    model, losses = pretrain(synthetic_sessions(s), s, folder and f'{root}/{folder}')
    save_checkpoint(f'{root}/{name}.{processes().process_index}', model, losses=losses)

if sys.argv[1] == 'first': begin('of one'); finish(None, 'whole')
if sys.argv[1] == 'two': begin('of two'); finish('of one', 'one to two'); finish(None, 'shared')
if sys.argv[1] == 'last': finish('of two', 'two to one')
"""


@slow
def test_a_checkpoint_goes_on_with_another_number_of_processes(tmp_path):
    for part in ('first', 'two', 'last'):
        done(tmp_path/'resume.py', RESUME, tmp_path, part, tmp_path, two=part == 'two')
    kept = [load_arrays(tmp_path/name/'checkpoint.safetensors') for name in ('of one', 'of two')]
    assert kept[0][0].keys() == kept[1][0].keys() and kept[0][1].keys() == kept[1][1].keys()
    assert kept[0][1]['step'] == kept[1][1]['step'] == 4
    whole, facts = load_arrays(tmp_path/'whole.0')
    start = {f'model.{k}': v.numpy() for k, v in new_model(load_settings('smoke')).state_dict().items()}
    for name in ('one to two.0', 'one to two.1', 'two to one.0', 'shared.0', 'shared.1'):
        weights, same = load_arrays(tmp_path/name)
        assert np.allclose(facts['losses'], same['losses'], atol=1e-4, rtol=0), name
        for k, v in weights.items(): # Adam makes much of a gradient's sign, even where it is rounding
            assert np.linalg.norm(v - whole[k]) < .01*np.linalg.norm(v - start[k]), (name, k)


BAD = """
import math, os, sys
from importlib import import_module
from modit.cli.command import main

pretrain = import_module('modit.pretrain') # the module; modit.pretrain is its function
usual, asked = pretrain.continuation_loss, []
def bad(model, rows, jacobi):
    asked.append(1)
    wrong = os.environ['RANK'] == '1' and len(asked) == 3
    return usual(model, rows, jacobi)*(math.nan if wrong else 1)
pretrain.continuation_loss = bad
try: main(['stage', 'sft', '--profile', 'smoke'])
except SystemExit: pass
main(['stage', 'pretrained', '--profile', 'smoke'])
"""


@slow
def test_what_is_wrong_with_one_stops_all_in_one_line(tmp_path):
    run = start(tmp_path/'bad.py', BAD, tmp_path/'runs')
    told = [line for line in run.stderr.splitlines() if line.startswith('modit')]
    # before they are connected, both say the first
    no_domain = 'modit: stage sft needs one of the domains D1, D2, D3, D4, got None'
    nan = 'modit: pretrain: loss is nan at step 2; lower the learning rate'
    assert run.returncode != 0 and told == [no_domain, no_domain, nan], run.stderr[-3000:]
    assert f'File "{ROOT/"modit"}' not in run.stderr, 'the launcher reports in its way, we in ours'
    assert not [*(tmp_path/'runs').rglob('*.safetensors')]


def test_processes_that_do_not_find_each_other_are_refused(tmp_path):
    code = 'import os; os.environ["WORLD_SIZE"] = "2"; from accelerate import PartialState; PartialState();'
    code += 'from modit.training import processes; processes()'
    run = start(None, code, tmp_path, two=False)
    assert run.returncode and '2 processes were started, and each works alone on cpu' in run.stderr
    assert os.environ.get('WORLD_SIZE') is None


def test_only_a_stage_that_trains_has_products_of_lower_precision(monkeypatch, tmp_path):
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path))
    monkeypatch.setattr(training, 'refuse_precision', lambda *_: None) # as on an accelerator
    s, inside = load_settings('smoke', precision='tf32'), {}
    now = torch.get_float32_matmul_precision
    usual = now()
    def maker(s, stage, domain, path): inside[stage] = now()
    monkeypatch.setattr(pipeline, 'named', lambda *_: maker)
    try:
        for stage in ('corpus', 'pretrained', 'cpt', 'sft', 'pool', 'adaptive', 'direct'):
            with training.products_in('tf32'): pipeline.make_stage(s, stage, 'D1')
            assert now() == usual
        with pytest.raises(OSError), training.products_in('tf32'): raise OSError
        assert now() == usual
    finally: torch.set_float32_matmul_precision(usual)
    assert inside == dict.fromkeys(inside, 'high') | dict(corpus='highest', pool='highest')
