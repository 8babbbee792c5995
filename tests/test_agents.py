"""Tools for an agent: the command answers the package's own client over standard input and output."""
import asyncio
import json
import os
import sys

import pytest

pytest.importorskip('mcp')
from mcp import Client, StdioServerParameters

from conftest import write_shoes
from modit.serving.retriever import Retriever


def ask(folder, *questions):
    "Tools of one process, and its answers to some questions."
    words = ['-m', 'modit.cli.command', 'serve', str(folder), '--mcp']
    async def talk():
        server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        async with Client(server) as client:
            tools = {x.name: x for x in (await client.list_tools()).tools}
            return tools, [await client.call_tool(name, how) for name, how in questions]
    return asyncio.run(talk())


def told(answer): return json.loads(answer.content[0].text)


def test_the_command_answers_a_client(home):
    folder, seeds = write_shoes(home/'shoes', 'a shoe-{}'.format), [f'shoe {i}' for i in range(4)]
    tools, answers = ask(folder, ('expand', dict(seeds=seeds, k=5)), ('find', dict(words='shoe-12')),
                         ('expand', dict(seeds=['boot'])), ('expand', dict(seeds=seeds, k='many')),
                         ('explain', dict(seeds=seeds, k=5)))
    assert {*tools} == {'find', 'expand', 'judge', 'explain', 'card'}
    assert all(x.annotations.read_only_hint for x in tools.values())
    listed, found, unknown, wrong, explained = answers
    ids = Retriever.untrained(folder).over(folder).expand(seeds, k=5).id.tolist()
    assert [x['id'] for x in told(listed)['items']] == ids == [x['id'] for x in told(explained)['items']]
    assert {*told(explained)['items'][0]} > {*told(listed)['items'][0]}
    assert 'shoe 12' in [x['id'] for x in told(found)['items']]
    assert 'boot' in told(unknown)['error']
    assert wrong.is_error and told(wrong)['error'] == "k 'many': give a whole number"
