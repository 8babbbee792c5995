"""The recipe "A preference variant", done in a copy: one row in one file, and no other key moves.

That tables stay as they are is tested in test_redraw.py."""
import json

import pytest

from conftest import copy_repository, run_python
from test_redraw import EXPORT

pytestmark = pytest.mark.slow

PAGE = 'nbs/repro/168_ablations.ipynb'
ROW = "    eager=Variant('Eager', tolerance=0., stretch=2),\n"
BEFORE = "    static=Variant("
KEYS = """import json
from modit.repro.ablations import STAGES
from modit.stages.stages import stage_key
from modit.settings import load_settings
s = load_settings('mini')
print('keys', json.dumps({x: stage_key(s, x, 'D1') for x in STAGES}))"""


def keys(folder):
    "The key of every stage of a copy."
    return json.loads(run_python(KEYS, folder).rpartition('keys ')[2])


def modules(folder):
    "Contents of the exported modules by name."
    return {p.name: p.read_bytes() for p in (folder/'modit').rglob('*.py')}


def test_a_variant_is_one_row_in_one_file(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    code, before = modules(copy), keys(copy)
    page = json.loads((copy/PAGE).read_text())
    (cell,) = [c for c in page['cells'] if BEFORE in ''.join(c['source'])]
    at = next(i for i, line in enumerate(cell['source']) if line.startswith(BEFORE))
    cell['source'].insert(at, ROW)
    (copy/PAGE).write_text(json.dumps(page, indent=1, ensure_ascii=False, sort_keys=True) + '\n')
    run_python(EXPORT, copy)
    assert {name for name, text in modules(copy).items() if text != code[name]} == {'ablations.py'}
    after = keys(copy)
    assert after.pop('eager') not in after.values() and after == before, 'it trains more than itself'
