"""The constants of settings.ini against a table typed from the paper's appendices A and B."""
from dataclasses import fields

import pytest

from conftest import ROOT
from modit.settings import Settings, bases_of, load_settings, override, profile_values, read_profiles

PAPER = dict(
    # Default constants
    k=100, dim=1536, seq_len=200, prefix_len=150,
    # Stages
    repetition=(2, 1, 1, 3), cpt_epochs=1, batch=4096, cpt_micro_batch=16, cpt_lr=5e-4,
    warmup_ratio=.01, min_lr_ratio=.1, sft_micro_batch=64, sft_lr=5e-5, sft_epochs=(1, 1, 1, 2),
    # HPPO, Feasibility
    tail_depths=(10, 25, 35, 50), guidance_scales=(1, 2, 3, 6), margin=.03, tail_weight=.1, hppo_lr=1e-5,
    hppo_cases=50_000, hppo_steps=100,
    # app. G, Pareto-eps; sensitivity; serving scale
    tolerance=.02, beta=.05, guidance_scale=3.0,
    # Evaluation protocols
    auc_cases=1000, density_cases=500, light_cases=50, resamples=10_000,
    # tab:data
    domains=('D1', 'D2', 'D3', 'D4'), train_rows=(1_540_000, 5_950_000, 9_220_000, 478_000),
    normal_share=(.1, .2, .2, .2), clusters=(1000, 1000, 1000, 500), heldout_clusters=(50, 50, 50, 25),
)
SCALE = ('dim', 'items', 'clusters', 'train_rows', 'anchors', 'seq_len', 'prefix_len', 'tail_depths',
         'width', 'depth', 'heads', 'batch', 'pretrain_steps', 'pretrain_micro_batch', 'cpt_micro_batch',
         'sft_micro_batch', 'hppo_cases')
PROFILES = [name for name in read_profiles().sections() if name != 'DEFAULT']


@pytest.mark.parametrize('key', PAPER)
def test_default_is_the_paper(key):
    assert getattr(load_settings('paper'), key) == PAPER[key]


@pytest.mark.parametrize('profile', [p for p in PROFILES if p != 'paper'])
def test_profile_sets_its_scale(profile):
    cfg = read_profiles()
    stated = {key for name in bases_of(cfg, profile) for key in cfg[name]}
    lacking = [k for k in SCALE if k not in stated]
    assert not lacking, f'[{profile}] inherits {lacking} from the paper'


@pytest.mark.parametrize('profile', PROFILES)
def test_what_only_other_runs_change_is_left_alone(profile):
    s = load_settings(profile)
    assert s.pretrain_jacobi == s.jacobi == 'endpoint'
    assert s.sft_depth == s.preference_run == s.seed == 0


def test_keys_of_the_file_are_the_fields_of_the_class():
    cfg = read_profiles()
    assert set(cfg['DEFAULT']) | {'profile'} == {f.name for f in fields(Settings)}
    for profile in PROFILES: assert set(cfg[profile]) <= {*cfg['DEFAULT'], 'base'}


@pytest.mark.parametrize('profile', [p for p in PROFILES if 'base' in read_profiles()[p]])
def test_a_profile_repeats_nothing_of_its_base(profile):
    cfg = read_profiles()
    below = profile_values(cfg, cfg[profile]['base'])
    idle = [key for key, text in cfg[profile].items() if below.get(key) == text]
    assert not idle, f'[{profile}] repeats {idle} of its base'


@pytest.mark.parametrize('bad, said', [ # page settings has the others
    (dict(gidance_scale=2.), 'guidance_scale'), (dict(k=True), 'setting k'), (dict(items='5'), 'items'),
    (dict(round_start='first'), 'best, last'), (dict(margin=float('nan')), r'setting margin\b'),
    (dict(hppo_checkpoints=(19, 9)), r'setting hppo_checkpoints\b'), (dict(heads=5), 'width')])
def test_bad_setting_is_refused_before_and_after_loading(bad, said):
    with pytest.raises(ValueError, match=said) as early: load_settings('mini', **bad)
    with pytest.raises(ValueError, match=said) as late: override(load_settings('mini'), **bad)
    assert str(early.value) == str(late.value) and '\n' not in str(late.value)


@pytest.mark.parametrize('old, new, said', [
    ('[mini]\n', '[mini]\nmargn = 0.1\n', 'margn.*margin'), ('\nmargin = ', '\n# margin = ', 'lacks margin'),
    ('[mini]\n', '[mini]\nk = 50\n', r'settings\.ini.*\bk\b'),
    ('# settings.ini:', 'seed = 0\n#', r'settings\.ini'),
    ('valid_patterns = 0.25', 'valid_patterns = 25%', r'settings\.ini|setting valid_patterns'),
], ids=['unknown key', 'missing key', 'a key twice', 'before the first section', 'percent'])
def test_malformed_file(tmp_path, old, new, said):
    text, path = (ROOT/'settings.ini').read_text('utf-8'), tmp_path/'settings.ini'
    assert old in text
    path.write_text(text.replace(old, new, 1), 'utf-8')
    with pytest.raises(ValueError, match=said): load_settings('mini', path)
