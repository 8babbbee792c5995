"""What archives read agrees with pyproject.toml and the citation; every folder of data has a licence."""
import json
import re
import tomllib

import pytest
import yaml

from conftest import ROOT

PACKAGE = tomllib.loads((ROOT/'pyproject.toml').read_text())['project']
CITATION = yaml.safe_load((ROOT/'CITATION.cff').read_text())
CODEMETA, ZENODO = (json.loads((ROOT/name).read_text()) for name in ('codemeta.json', '.zenodo.json'))
PAPER = 'arXiv:2606.26899'


@pytest.mark.parametrize('found', [CITATION, CODEMETA, ZENODO], ids=['citation', 'codemeta', 'zenodo'])
def test_version_licence_and_keywords_agree(found):
    assert found['version'] == PACKAGE['version'] and found['keywords'] == CITATION['keywords']
    assert found['license'].rpartition('/')[2].lower() == PACKAGE['license'].lower()


def test_names_agree():
    assert CODEMETA['name'] == PACKAGE['name'] and ZENODO['title'] == CITATION['title']
    assert CODEMETA['description'] == ZENODO['description'] == PACKAGE['description']
    lists = CITATION['authors'], CODEMETA['author'], ZENODO['creators']
    assert len({tuple(who['name'] for who in authors) for authors in lists}) == 1


def test_requirements_agree():
    assert CODEMETA['softwareRequirements'] == PACKAGE['dependencies']
    assert CODEMETA['programmingLanguage']['version'] == PACKAGE['requires-python']


def test_the_paper_is_named_everywhere():
    paper, (related,) = CITATION['preferred-citation'], ZENODO['related_identifiers']
    publication = CODEMETA['referencePublication']
    assert paper['title'] == publication['name'] and paper['url'] == publication['url']
    assert paper['identifiers'][0]['value'] == publication['identifier'] == related['identifier'] == PAPER


def test_every_folder_of_data_has_a_licence():
    rows = re.findall(r'^\| (.*?) \|', (ROOT/'DATA_LICENSES.md').read_text(), re.M)
    named = {name for row in rows for name in re.findall(r'`([\w/-]+)/`', row)}
    figures = {f'figures/{name}' for name in ('mini', 'public', 'icons', 'tree', 'tree-e5', 'molecules',
                                              'reported')}
    committed = {'data_synth', 'data_public'} | figures
    assert named == committed and all((ROOT/name).is_dir() for name in named)
