"""Tools for an agent: the command answers the package's own client over standard input and output."""
import asyncio
import json
import sys

import pytest

pytest.importorskip('mcp')
from mcp import Client, StdioServerParameters

from modit.data.folder import write_folder
from modit.data.synth import make_domain, make_world
from modit.serving.retriever import Retriever
from modit.settings import load_settings


@pytest.fixture(scope='module')
def shoes(tmp_path_factory):
    "A folder, some of its positives, and where stages are kept."
    home = tmp_path_factory.mktemp('agents')
    s = load_settings('smoke')
    domain = make_domain(make_world(s), 'D3', s)
    ids = [f'shoe-{i}' for i in range(len(domain.items))]
    write_folder(home/'shoes', domain.items, ids, domain.attribute, text=[f'a {x}' for x in ids])
    return home/'shoes', [x for x, wanted in zip(ids, domain.attribute, strict=True) if wanted][:4]


def ask(folder, *questions, told=('serve', '--mcp')):
    "Answers of one process to some questions."
    import os
    command, *options = told
    words = ['-m', 'modit.cli.command', command, str(folder), *options]
    env = os.environ | dict(MODIT_RUNS=str(folder.parent/'runs'))
    async def talk():
        async with Client(StdioServerParameters(command=sys.executable, args=words, env=env)) as client:
            tools = {x.name: x for x in (await client.list_tools()).tools}
            return tools, [await client.call_tool(name, how) for name, how in questions]
    return asyncio.run(talk())


def told(answer): return json.loads(answer.content[0].text)


def test_the_command_answers_a_client(shoes, monkeypatch):
    folder, seeds = shoes
    tools, answers = ask(folder, ('expand', dict(seeds=seeds, k=5)), ('find', dict(words='shoe-12')),
                         ('expand', dict(seeds=['boot'])), ('expand', dict(seeds=seeds, k='many')),
                         ('explain', dict(seeds=seeds, k=5)))
    assert {*tools} == {'find', 'expand', 'judge', 'explain', 'card'}
    assert all(x.annotations.read_only_hint for x in tools.values())
    listed, found, unknown, wrong, explained = answers
    monkeypatch.setenv('MODIT_RUNS', str(folder.parent/'runs'))
    ids = Retriever.untrained(folder).over(folder).expand(seeds, k=5).id.tolist()
    assert [x['id'] for x in told(listed)['items']] == ids == [x['id'] for x in told(explained)['items']]
    assert {*told(explained)['items'][0]} > {*told(listed)['items'][0]}
    assert 'shoe-12' in [x['id'] for x in told(found)['items']]
    assert 'boot' in told(unknown)['error'] and wrong.is_error
