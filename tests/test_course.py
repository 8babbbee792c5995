"""The course: its solutions run and print what they say they print, its commands ask for what pages have."""
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from conftest import ROOT, environment
from modit.repro.pages.notebooks import check_parameters

COURSE = (ROOT/'nbs'/'COURSE.md').read_text('utf-8')
LESSONS = dict(re.findall(r'^## (\d+)\. (.*?)(?=^## |\Z)', COURSE, re.M | re.S))


def blocks(lesson, language): return re.findall(rf'^```{language}\n(.*?)^```', LESSONS[lesson], re.M | re.S)


LONG = {'5', '6'} # these train


@pytest.mark.parametrize('lesson', [pytest.param(x, marks=[pytest.mark.slow]*(x in LONG)) for x in LESSONS])
def test_a_solution_prints_what_it_says(lesson, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, = blocks(lesson, 'python')
    exec(compile(code, f'lesson {lesson}', 'exec'), {})
    told = re.findall(r'^# (.*)$', code, re.M)
    if told: assert capsys.readouterr().out.splitlines() == told


@pytest.mark.slow
def test_a_result_of_one_s_own_is_what_the_text_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(*blocks('10', 'python'), {})
    env = environment(ROOT) | dict(MODIT_RUNS=str(tmp_path/'runs'))
    done = subprocess.run(['bash', '-ec', *blocks('10', 'bash')], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.findall(r'^(new|known) patterns: .*\[(\S+), ', done.stdout, re.M)
    low = {kind: float(at) for kind, at in found}
    gains = re.findall(r'(border|attribute) +\S+ +(\S+)', done.stdout)
    assert set(low) == {'new', 'known'} and min(low.values()) > 0
    assert all(float(gain) > 10 for name, gain in gains if name == 'attribute')


COMMANDS = [*map(shlex.split, re.findall(r'^papermill (.*)$', COURSE, re.M))]


@pytest.mark.parametrize('words', COMMANDS, ids=lambda words: Path(words[0]).stem)
def test_a_command_asks_for_less_than_what_is_committed(words):
    page, _, option, given = words
    given = check_parameters(ROOT/page, yaml.safe_load(given))
    assert option == '-y' and set(given) <= {'domains', 'splits', 'cases'}
