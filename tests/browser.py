"""A page in headless Chromium, asked through the browser's debugging protocol."""
import json
import shutil
import subprocess
import time
from pathlib import Path

from conftest import HANG

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome')
FLAGS = """
--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync --hide-scrollbars
--disable-background-networking --disable-component-update --remote-debugging-port=0 --remote-allow-origins=*
""".split()


def find_browser():
    "Path of a Chromium or Chrome on this machine, or None."
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    "One tab, with a profile of its own; what the browser tells unasked is kept in `events`."
    def __init__(self, profile, width=1280, height=900):
        from websocket import create_connection  # needed by nobody who has no browser
        words = [f'--user-data-dir={profile}', f'--window-size={width},{height}', 'about:blank']
        quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.process = subprocess.Popen([find_browser(), *FLAGS, *words], **quiet)
        self.asked, self.events, self.session = 0, [], None
        try:
            port, path = self.wait(lambda: (Path(profile)/'DevToolsActivePort').read_text().split())
            self.socket = create_connection(f'ws://127.0.0.1:{port}{path}', timeout=HANG)
        except BaseException:
            self.process.kill()
            raise
        tab = self.ask('Target.createTarget', url='about:blank')['targetId']
        self.session = self.ask('Target.attachToTarget', targetId=tab, flatten=True)['sessionId']
        for domain in ('Page', 'Network', 'Runtime'): self.ask(f'{domain}.enable')

    def wait(self, ready, seconds=HANG):
        "Ask until there is an answer; raises `TimeoutError`."
        for _ in range(seconds*20):
            try:
                if found := ready(): return found
            except (OSError, ValueError): pass  # the file is not there yet, or half written
            time.sleep(.05)
        raise TimeoutError('the browser gave no answer')

    def ask(self, method, **params):
        "One command and its result; raises `RuntimeError` when it is refused."
        self.asked += 1
        message = dict(id=self.asked, method=method, params=params)
        if self.session: message['sessionId'] = self.session
        self.socket.send(json.dumps(message))
        while (answer := json.loads(self.socket.recv())).get('id') != self.asked: self.events.append(answer)
        if 'error' in answer: raise RuntimeError(f'{method}: {answer["error"]["message"]}')
        return answer['result']

    def evaluate(self, script):
        "The value of a JavaScript expression; raises `RuntimeError` with its exception."
        found = self.ask('Runtime.evaluate', expression=script, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in found: raise RuntimeError(str(found['exceptionDetails']))
        return found['result'].get('value')

    def open(self, path):
        "Load a file, and wait until its pictures and equations are there."
        self.events.clear()
        self.ask('Page.navigate', url=Path(path).resolve().as_uri())
        self.wait(lambda: self.evaluate('document.readyState == "complete"'))
        self.evaluate('window.MathJax?.startup?.promise?.then(() => true)')

    def told(self, name):
        "What the browser told unasked under a name, such as Runtime.exceptionThrown."
        return [e['params'] for e in self.events if e.get('method') == name]

    def prefer(self, scheme):
        "Ask pages for their light or dark look."
        self.ask('Emulation.setEmulatedMedia', features=[dict(name='prefers-color-scheme', value=scheme)])

    def __enter__(self): return self

    def __exit__(self, *why):
        self.socket.close()
        self.process.terminate()
        self.process.wait(HANG)
