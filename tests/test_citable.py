"""CITATION.cff agrees with pyproject.toml; every folder of data has a licence."""
import re
import tomllib

import yaml

import modit
from conftest import ROOT

PACKAGE = tomllib.loads((ROOT/'pyproject.toml').read_text('utf-8'))['project']
CITATION = yaml.safe_load((ROOT/'CITATION.cff').read_text('utf-8'))


def test_version_and_licence_agree():
    newest = re.search(r'^## (.*)$', (ROOT/'CHANGELOG.md').read_text('utf-8'), re.M)[1]
    assert re.fullmatch(rf'{re.escape(PACKAGE["version"])}, (not released|\d{{4}}-\d\d-\d\d)', newest)
    assert modit.__version__ == CITATION['version'] == PACKAGE['version']
    assert CITATION['license'] == PACKAGE['license']


def test_every_folder_of_data_has_a_licence():
    rows = re.findall(r'^\| (.*?) \|', (ROOT/'DATA_LICENSES.md').read_text('utf-8'), re.M)
    named = {name for row in rows for name in re.findall(r'`([\w/-]+)/`', row)}
    assert named == {'data_synth', 'data_public', 'figures', 'figures/reported'}
