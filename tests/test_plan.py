"""Counted work against independent counts: the counter of torch, real items and lists, steps; untimed."""
import numpy as np
import pandas as pd
import pytest

from modit.repro.bench import plan
from modit.repro.bench.plan import KINDS, Machine, fit_machine, machine_line
from modit.repro.bench.work import ON_DEVICE, UNITS, all_work, host_bytes
from modit.repro.bench.work import index_bytes, item_bytes
from modit.repro.bench.work import main_runs, row_numbers, timed_pieces, training_bytes
from modit.data.folder import write_folder
from modit.index.engines import empty_lists
from modit.pretrain import continuation_rows
from modit.cli.command import main
from modit.serving.proposal import settings_of
from modit.settings import load_settings, override
from modit.sphere import sample_sphere
from modit.store import stream
from modit.variants import VARIANTS

SMOKE = load_settings('smoke')


def test_items_and_lists_take_the_bytes_that_were_counted():
    n, d = 3000, 16
    items = sample_sphere(stream(0, 'test'), (n, d)).numpy()
    parts = items, np.zeros(n, np.float32), np.zeros(n, np.int32), np.zeros(n, bool), np.zeros(n, np.uint8)
    assert item_bytes(n, d) == sum(x.nbytes for x in parts)
    assert index_bytes(n, d, 'flat') == (0, 0)
    index = empty_lists(items)
    index.add(items)
    lists = sum(index.invlists.list_size(i) for i in range(index.nlist))*(index.code_size + 8)
    assert index_bytes(n, d, 'ivf') == (lists + 4*d*index.nlist, 0)


def test_steps_of_the_paper_are_those_of_its_tables():
    s = load_settings('paper')
    work = all_work(override(s, cpt_micro_batch=s.batch, sft_micro_batch=s.batch))
    work = work.set_index(['stage', 'domain', 'kind'])
    assert work.calls['cpt', '', 'train'] == 4805 # an epoch of the repeated rows, its last part left away
    tuned = [work.calls['sft', name, 'train'] for name in s.domains]
    for ours, paper in zip(tuned, (377, 1452, 2250, 234), strict=True): assert abs(ours - paper) <= 2


def test_preference_runs_are_counted_to_their_last_round():
    s = override(SMOKE, hppo_rounds=3, hppo_steps=5, off_policy_steps=(2, 4))
    iterated = sum(v.page == 'main' and v.rounds != 1 for v in VARIANTS.values())
    assert main_runs(s) == (1 + 2*iterated, 4 + 15*iterated, 2 + 4*iterated)


def test_work_grows_as_it_must():
    def amount(**changes):
        return all_work(override(SMOKE, **changes)).groupby('kind').amount.sum()
    usual, double = amount(), amount(hppo_cases=2*SMOKE.hppo_cases)
    assert double.flat > usual.flat and double.generate > usual.generate and double.train == usual.train
    assert amount(pretrain_steps=2*SMOKE.pretrain_steps).sessions == 2*usual.sessions
    assert 'scan' not in usual and amount(index='ivf').scan > 0


def made_up(call=.01, rate=1e6):
    "A measurement of a machine on which every kind of work costs the same."
    rows = [(kind, 2, size, 2*call + size/rate) for kind in UNITS for size in (1e3, 1e5, 1e6)]
    return pd.DataFrame(rows, columns=['kind', 'calls', 'amount', 'seconds']).assign(processor='x', load=0.)


def test_a_batch_is_made_of_the_numbers_that_were_counted():
    s, rng = override(SMOKE, pretrain_targets=3), stream(0, 'test')
    rows = continuation_rows(sample_sphere(rng, (5, s.seq_len, s.dim)).numpy(), s, rng, targets=3)
    assert sum(rows[x].numel() for x in ('items', 'noise')) == 5*row_numbers(s, s.seq_len, 3)


def test_memory_side_by_side_is_a_sum_but_for_the_page():
    host, table = host_bytes(SMOKE), plan.plan(SMOKE, fit_machine(made_up())).set_index('stage')
    assert host['pool'] == 10*sum(SMOKE.items) > host['evaluation'] == 10*max(SMOKE.items)
    assert table.device_gb['sft']*1e9 == pytest.approx(4*training_bytes(SMOKE, 'sft'))
    assert table.device_gb['cpt']*1e9 == pytest.approx(training_bytes(SMOKE, 'cpt'))


def test_a_measurement_is_kept_while_the_processor_is_the_same(tmp_path, monkeypatch):
    made = []
    def measure(sizes): made.append(1); return made_up().drop(columns='processor')
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path))
    monkeypatch.setattr(plan, '_measure', measure)
    for processor, times in (('x', 1), ('x', 1), ('another', 2)):
        monkeypatch.setattr(plan, 'kernels', lambda name=processor: dict(processor=name))
        table = plan._measured_once()
        assert set(table.processor) == {processor} and len(made) == times and (tmp_path/'plan.csv').exists()


def test_a_machine_is_found_again_from_its_own_seconds():
    rng, table = stream(0, 'machine'), made_up()
    machine = fit_machine(table.sample(frac=1, random_state=rng.integers(99)))
    for kind in UNITS:
        assert machine.call[kind] == pytest.approx(.01) and machine.rate[kind] == pytest.approx(1e6)
    assert machine.predict(table).seconds.to_numpy() == pytest.approx(table.seconds.to_numpy())


def test_the_clock_sees_what_runs_side_by_side():
    kinds, stages = ['train', 'train', 'flat', 'flat'], ['cpt', 'sft', 'pool', 'pool']
    work = pd.DataFrame(dict(stage=stages, domain=['', 'a', 'b', 'c'], kind=kinds, seconds=[5, 4, 3, 2]))
    assert plan._clock_seconds(work, Machine({}, {}, 1)) == 5 + 9
    assert plan._clock_seconds(work, Machine({}, {}, 9)) == 5 + 4
    shared = work.assign(kind='train')
    assert plan._clock_seconds(shared, Machine({}, {}, 9, shared=True)) == 5 + 9
    begin = work.assign(stage=['pretrained', 'corpus', 'corpus', 'domain'])
    assert plan._clock_seconds(begin, Machine({}, {}, 9)) == 5 # corpora are made beside pretraining


@pytest.mark.parametrize('how', ('fp32', 'tf32', 'bf16'))
def test_an_accelerator_is_found_again_from_its_pieces(how):
    pieces, host = timed_pieces(how), fit_machine(made_up())
    cards = {kind.device: plan._as_machine(kind, host, how) for kind in KINDS if kind.device}
    assert cards['H100'].predict(pieces).seconds.div(pieces.seconds).between(.5, 2).all()
    assert all(cards['A100'].rate[x] < cards['H100'].rate[x] for x in ON_DEVICE)
    for card in cards.values():
        assert all(card.rate[x] == host.rate[x] for x in ('items', 'cluster', 'lists', 'scan', 'flat'))
    longest = pieces[pieces.kind == 'train'].seconds.max()
    assert longest <= timed_pieces('fp32').query('kind == "train"').seconds.max()


def test_exact_search_is_work_of_the_accelerator():
    host = fit_machine(made_up())
    card = plan._as_machine(KINDS[3], host)
    def kinds(machine, **changes): return set(plan._seconds(override(SMOKE, **changes), machine).kind)
    assert {'flat'} == kinds(host) & {'flat', 'torch', 'scan'}
    assert {'flat', 'torch'} == kinds(card) & {'flat', 'torch', 'scan'}, 'the audit stays on the host'
    for index in ('torch', 'ivf'): assert kinds(host, index=index) == kinds(card, index=index)
    many = override(SMOKE, hppo_cases=1000)
    few = plan._seconds(many, card).query('stage == "pool" and kind == "flat"').calls.sum()
    assert 0 < few < .1*all_work(many).query('stage == "pool" and kind == "flat"').calls.sum()


@pytest.mark.parametrize('sessions', (.001, 1000.))
def test_pretraining_beside_an_accelerator_waits_for_the_slower_part(sessions):
    host = fit_machine(made_up())
    card = Machine(host.call | dict(sessions=sessions), host.rate, 16, shared=True)
    alone = card.predict(all_work(SMOKE)).query('stage == "pretrained"').set_index('kind').seconds
    both = plan._seconds(SMOKE, card).query('stage == "pretrained"').seconds.sum()
    rest = alone.drop('sessions').sum()
    assert both == pytest.approx(max(rest, alone.sessions/plan.AHEAD)) and (both > rest) == (sessions > 1)


def test_the_smallest_machine_that_will_do_is_named():
    fast, slow = (Machine(dict.fromkeys(UNITS, 0.), dict.fromkeys(UNITS, x), 1) for x in (1e15, 1e6))
    assert ': 2 cores, ' in machine_line(SMOKE, fast)
    roomy = override(SMOKE, items=(10**8,)*4)                      # 100 million items of 16 numbers
    assert f': {KINDS[0].cores} cores, ' not in machine_line(roomy, fast)
    assert machine_line(SMOKE, fast).startswith('smoke: ')
    line = machine_line(SMOKE, slow, .001)
    assert 'no machine' in line and '\n' not in line


def test_large_fits_one_accelerator_of_80_gb():
    s = load_settings('large')
    assert plan.plan(s, fit_machine(made_up())).device_gb.max() < 80 and max(host_bytes(s).values()) < 64e9
    assert s.index == 'ivf'


def test_the_command_plans_a_fit_on_folders(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(plan, '_measured_once', lambda: made_up(0., 1e12))
    shoes, lamps = (str(tmp_path/name) for name in ('shoes', 'lamps'))
    for name in (shoes, lamps):
        x = sample_sphere(stream(0, name[-5:]), (700, 8)).numpy()
        write_folder(name, x, range(700), x[:, 0] > 0)
    main(['plan', shoes, lamps])
    table, line = capsys.readouterr().out.strip().split('\n\n')
    assert line.startswith('shoes lamps: ') and 'domain' not in [row.split()[0] for row in table.splitlines()]
    s = settings_of([shoes, lamps])
    assert s.dim == 8 and s.items == (700, 700)
    assert all(one < four for one, four in zip(main_runs(s), main_runs(load_settings('mini')), strict=True))
    with pytest.raises(SystemExit): main(['plan', shoes, '--log', 'some'])
    assert 'omit the folders' in capsys.readouterr().err


@pytest.mark.parametrize('argv, said', [(['--profile', 'smoke', '--hours', '0'], 'above 0'),
                                        (['--profile', 'smoke', '--log', 'nowhere.log'], 'nowhere.log')])
def test_a_mistake_is_one_line(argv, said, capsys):
    with pytest.raises(SystemExit) as stop: main(['plan', *argv])
    err = capsys.readouterr().err
    assert stop.value.code == 2 and err.startswith('modit: ') and err.count('\n') == 1 and said in err


def test_an_index_that_cannot_be_counted_is_refused():
    for kind in ('hnsw', 'milvus'):
        with pytest.raises(ValueError, match=f'index {kind!r}.*flat, ivf, ivf_disk'):
            all_work(override(SMOKE, index=kind))
