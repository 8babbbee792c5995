"""What an accelerator gains: search, sampling and training beside the same machine's processor, in one run.

    python bench/accelerator.py accelerator.json --seconds 150

Every part has a time limit, and is skipped where memory or time is short. The file grows with every part.
Parts: search (engine `torch` beside `flat`), sampling, training, draws made ahead, compiling.
Without an accelerator it measures the processor, and `--tiny` is for tests.
"""
import argparse
import json
import os
import platform
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402 (modit of this clone, installed or not)
import torch  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

from modit.data.synth import synthetic_sessions  # noqa: E402
from modit.evaluation import queries_in_blocks, seeds_of, serve  # noqa: E402
from modit.index.device import DeviceIndex, search_device  # noqa: E402
from modit.model import init_zero_layers, new_model  # noqa: E402
from modit.ordering import Cases  # noqa: E402
from modit.pretrain import continuation_loss, continuation_rows  # noqa: E402
from modit.retrieval import Flat, VectorIndex  # noqa: E402
from modit.settings import load_settings  # noqa: E402
from modit.sphere import sample_sphere  # noqa: E402
from modit.store import named, stream  # noqa: E402
from modit.training import train_step  # noqa: E402

DEVICE, CORES = search_device(), len(os.sched_getaffinity(0))
ON_ACCELERATOR = DEVICE.type != 'cpu'
STARTED, ROWS = time.perf_counter(), []


class TimeUp(BaseException):
    "A part took longer than it may; nothing that catches errors catches this."


def late(*_): raise TimeUp


# ---- time, memory and the file
def wait():
    if ON_ACCELERATOR: torch.accelerator.synchronize()


def since(start): return time.perf_counter() - start


def seconds(f, runs=3, warm=1):
    "Median elapsed time of a call; the device has finished its work."
    for _ in range(warm): f()
    times = []
    for _ in range(runs):
        wait()
        start = time.perf_counter()
        f()
        wait()
        times.append(since(start))
    return float(np.median(times))


def device_gb(): return torch.cuda.max_memory_allocated()/1e9 if DEVICE.type == 'cuda' else None


def host_gb():
    "Memory that processes may still take."
    facts = dict(line.split()[:2] for line in Path('/proc/meminfo').read_text('utf-8').splitlines())
    return int(facts['MemAvailable:'])/1e6


def short(v):
    if isinstance(v, dict): return {k: short(x) for k, x in v.items()}
    return float(f'{v:.5g}') if isinstance(v, float) else v


def keep(path, row):
    "Add a row, write all rows, print this one."
    row = {k: short(v) for k, v in row.items()}
    ROWS.append(row | dict(at=round(since(STARTED), 1)))
    part = path.with_name(path.name + '.part')
    part.write_text(json.dumps(ROWS, indent=1) + '\n', 'utf-8')
    part.replace(path)
    print(f'{since(STARTED):6.1f}', *(f'{k} {v}' for k, v in row.items() if v is not None), flush=True)


def run(path, what, part, limit, whole):
    "Run a part that yields rows, within its time limit and that of the whole script."
    limit = min(limit*max(1, whole/150), whole - since(STARTED)) # a longer script gives each part longer
    if limit < 5: return keep(path, dict(what=what, skipped='no time is left'))
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit, 10) # again, in case the first is lost in a callback
    try:
        for row in part(): keep(path, dict(what=what) | row)
    except TimeUp: keep(path, dict(what=what, skipped=f'stopped after {limit:.0f} s'))
    except (RuntimeError, MemoryError) as e: # torch's errors of memory and compilers are RuntimeError
        keep(path, dict(what=what, skipped=' '.join(str(e).split())[:200]))
    finally: signal.setitimer(signal.ITIMER_REAL, 0)
    if DEVICE.type == 'cuda':
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


# ---- operations; a multiplication and an addition are two
def forward_flops(s, *tokens, **how): return named(s.backbone).flops(s, *tokens, **how) # of one sequence
def train_flops(s, *tokens): return 3*forward_flops(s, *tokens)


def generate_flops(s, cases, scale):
    "Operations of generating the queries of a block at one guidance scale."
    modulation = forward_flops(s, 0, 0, 1)
    step = cases*forward_flops(s, s.prefix_len, 1, 0, cached=True) + modulation
    if scale != 1: step += cases*forward_flops(s, 0, 1, 0) + modulation
    return cases*forward_flops(s, s.prefix_len, 0, 0) + s.ode_steps*step


# ---- the peak of the device
@contextmanager
def precision(how):
    "fp32, tf32 or bf16 for the products inside."
    usual = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision('high' if how == 'tf32' else 'highest')
    try:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=how == 'bf16'): yield
    finally: torch.set_float32_matmul_precision(usual)


def peaks(n):
    "Operations a second of one large product, in each precision."
    a, b = (torch.randn(n, n, device=DEVICE) for _ in range(2))
    row = {}
    for how in ('fp32', 'tf32', 'bf16'):
        kind = torch.bfloat16 if how == 'bf16' else torch.float32
        with precision(how): row[how] = 2*n**3/seconds(partial(torch.mm, a.to(kind), b.to(kind)), 5)/1e12
    yield dict(size=n, tflops=row)


# ---- search
def unit_table(n, d):
    "Random unit rows, drawn on the device and kept on the host."
    table, generator = np.empty((n, d), 'f4'), torch.Generator(DEVICE).manual_seed(0)
    for i in range(0, n, 2**19):
        x = torch.randn(min(2**19, n - i), d, generator=generator, device=DEVICE)
        table[i:i + len(x)] = torch.nn.functional.normalize(x).cpu().numpy()
    return table


def wrapped(items, engine, kind, block):
    "A VectorIndex of unit rows, which are not checked again."
    index = VectorIndex(items[:1000], block=block)
    index.items, index.index, index.kind = items, engine, kind
    return index


def search(n, d, blocks=(256, 4096), k=90):
    "Lists a second of both engines, rescored and sorted as in a run; the processor with all its cores."
    need = 1.3*n*d*4/1e9 + 4
    if host_gb() < need: raise MemoryError(f'{need:.0f} GB of the host are needed')
    items = unit_table(n, d)
    queries = normalized(stream(0, 'queries').standard_normal((max(blocks), d), dtype=np.float32))
    start = time.perf_counter()
    engine = DeviceIndex(items)
    wait()
    yield dict(n=n, d=d, engine='torch', build_seconds=since(start), device_gb=device_gb())
    found, rates = None, {}
    for block in blocks:
        index = wrapped(items, engine, 'torch', block)
        found = index.search(queries[:256], k) if found is None else found
        rates[block] = block/seconds(lambda index=index, block=block: index.search(queries[:block], k), 3)
        alone = block/seconds(lambda block=block: engine.search(queries[:block], k + 8), 3)
        yield dict(n=n, d=d, engine='torch', block=block, per_second=rates[block],
                   without_rescoring=alone, device_gb=device_gb())
    flat = wrapped(items, Flat(items), 'flat', 256)
    with threadpool_limits(CORES):
        start = time.perf_counter()
        exact = flat.search(queries[:256], k)
        rate = 256/since(start)
    scores, ids = (float((a == b).mean()) for a, b in zip(found, exact, strict=True))
    yield dict(n=n, d=d, engine='flat', block=256, cores=CORES, per_second=rate,
               ratio={b: round(r/rate, 1) for b, r in rates.items()}, same_scores=scores, same_ids=ids)


def normalized(x): return x/np.linalg.norm(x, axis=1, keepdims=True)


# ---- sampling
def sampling(profile, cases):
    "Queries a second: the flow alone, and as served, which draws the noise of each case on the host."
    s = load_settings(profile)
    rng = stream(0, 'sampling')
    items = normalized(rng.standard_normal((20_000, s.dim), dtype=np.float32))
    corpus = SimpleNamespace(items=items, name='D1', drawn_by='D1')
    prefix = rng.integers(len(items), size=(cases, s.seq_len))
    cases_of = {m: Cases(np.zeros(m, int), prefix[:m], s.prefix_len) for m in (250, cases)}
    found, rates = {}, {}
    for where in dict.fromkeys((DEVICE.type, 'cpu')):
        model = init_zero_layers(new_model(s)).to(where)
        m = cases if where != 'cpu' else 250
        noise = sample_sphere(stream(0, 'noise'), (m, 1, s.dim))
        flow = partial(queries_in_blocks, model, seeds_of(corpus, cases_of[m]), noise, s.guidance_scale, s)
        torch.set_num_threads(CORES)
        for block in ((250, 1000) if where != 'cpu' else (250,)):
            took = seconds(lambda flow=flow, block=block: flow(block=block), 3)
            rates[where, block] = m/took
            tflops = m*generate_flops(s, 250, s.guidance_scale)/250/took/1e12
            yield dict(profile=profile, where=where, block=block, per_second=m/took, tflops=tflops)
        took = seconds(lambda m=m, model=model: serve(model, corpus, cases_of[m], s), 2)
        rates[where] = m/took
        found[where] = serve(model, corpus, cases_of[250], s)
        yield dict(profile=profile, where=where, served_per_second=m/took)
    if ON_ACCELERATOR:
        yield dict(profile=profile, ratio=rates[DEVICE.type, 250]/rates['cpu', 250],
                   ratio_served=rates[DEVICE.type]/rates['cpu'],
                   largest_difference=float(np.abs(found[DEVICE.type] - found['cpu']).max()))


# ---- training
class Run:
    "Pretraining at a profile, piece by piece, as `fit` does it."

    def __init__(self, s):
        self.s, self.draw = s, synthetic_sessions(s)
        self.L, self.T = s.seq_len, s.pretrain_targets or s.seq_len - 1
        self.work = s.batch*train_flops(s, self.L - 1, self.T, self.T)

    def batch(self, step):
        "The same draws in the same order as in `pretrain`."
        rng = stream(self.s.seed, 'pretrain', step)
        return continuation_rows(self.draw(rng), self.s, rng, targets=self.s.pretrain_targets)

    def stepper(self, how, compiled=False):
        "A call that makes one optimiser step of rows on the device."
        model = new_model(self.s).to(DEVICE)
        optimiser = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
        model = torch.compile(model) if compiled else model
        loss = partial(continuation_loss, jacobi=self.s.pretrain_jacobi)
        def step(rows):
            with precision('tf32' if how == 'tf32' else 'fp32'):
                return float(train_step(model, optimiser, loss, rows, self.s.pretrain_micro_batch,
                                        self.s.grad_clip, 'bf16' if how == 'bf16' else 'fp32'))
        return step


def moved(rows): return {k: v.to(DEVICE) for k, v in rows.items()}


def training(work, steps, peak):
    "Steps a second of each precision, and the parts of a step that the host does."
    s = work.s
    rows = work.batch(0)
    sessions = seconds(lambda: work.draw(stream(0, 'draw')), 3)
    whole = seconds(lambda: work.batch(1), 3)
    across = seconds(lambda: moved(rows), 5)
    yield dict(profile=s.profile, host_sessions=sessions, host_noise=whole - sessions, to_device=across)
    on_device = moved(rows)
    for how in ('fp32', 'tf32', 'bf16'):
        step = work.stepper(how)
        took = seconds(lambda step=step: step(on_device), steps, 3)
        tflops = work.work/took/1e12
        yield dict(profile=s.profile, how=how, step_seconds=took, steps_per_second=1/took, tflops=tflops,
                   share_of_peak=tflops/peak[how] if peak else None, as_in_fit_seconds=took + whole + across,
                   device_gb=device_gb())


# ---- draws made ahead
def ahead(batch, steps, threads):
    "Batches in their order, drawn by threads a few steps ahead."
    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(batch, i) for i in range(min(threads, steps))]
        for i in range(steps):
            rows = waiting.pop(0).result()
            if i + threads < steps: waiting.append(pool.submit(batch, i + threads))
            yield rows


def prefetched(work, how, steps):
    "Steps of the loop of `fit`, with its draws one after another and made ahead by threads."
    step = work.stepper(how)
    step(moved(work.batch(0)))
    first = None
    for threads in (0, 1, 2, 4, 8):
        if threads >= CORES and threads > 1: break
        model_steps, start = steps if threads else max(3, steps//4), time.perf_counter()
        source = ahead(work.batch, model_steps, threads) if threads else map(work.batch, range(model_steps))
        for rows in source: step(moved(rows))
        wait()
        took = since(start)/model_steps
        first = first or took
        yield dict(profile=work.s.profile, how=how, threads=threads, step_seconds=took,
                   steps_per_second=1/took, gain=first/took)


def compiled(work, how, steps, peak):
    "A compiled step, and how long compiling took."
    rows, step = moved(work.batch(0)), work.stepper(how, compiled=True)
    start = time.perf_counter()
    step(rows)
    compiling = since(start)
    took = seconds(lambda: step(rows), steps, 3)
    tflops = work.work/took/1e12
    eager = [x for x in ROWS if x['what'] == 'training' and x.get('how') == how]
    yield dict(profile=work.s.profile, how=how, step_seconds=took, tflops=tflops, compile_seconds=compiling,
               share_of_peak=tflops/peak[how] if peak else None,
               eager_over_compiled=eager[0]['step_seconds']/took if eager else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('path', type=Path, help='JSON file, written after every part')
    parser.add_argument('--seconds', type=float, default=150, help='time limit of the whole script')
    parser.add_argument('--tiny', action='store_true', help='sizes of a test')
    given = parser.parse_args()
    name = torch.cuda.get_device_name() if DEVICE.type == 'cuda' else platform.machine()
    packages = {x: version(x) for x in ('torch', 'numpy', 'faiss-cpu')}
    keep(given.path, dict(what='machine', device=DEVICE.type, name=name, cores=CORES, **packages,
                          python=platform.python_version(), host_gb=host_gb()))
    part = partial(run, given.path, whole=given.seconds)
    tiny = given.tiny
    torch.set_num_threads(CORES)
    part('peak', lambda: peaks(512 if tiny else 8192), 15)
    peak = next((x['tflops'] for x in ROWS if x['what'] == 'peak' and 'tflops' in x), None)
    large = (2_700_000, 48), (5_400_000, 128)
    sizes, blocks = (((20_000, 48), (9000, 384)), (256, 512)) if tiny else (large, (256, 4096))
    for size in sizes: part('search', partial(search, *size, blocks), 20)
    for profile in ('smoke',) if tiny else ('mini', 'large'):
        part('sampling', partial(sampling, profile, 2000 if ON_ACCELERATOR else 250), 15)
    torch.set_num_threads(1 if ON_ACCELERATOR else CORES) # as in a run
    threadpool_limits(1, 'blas')                          # of one draw; several may be made at once
    s = load_settings('smoke' if tiny else 'large')
    work, steps = Run(s), 3 if tiny else 10
    part('training', partial(training, work, steps, peak), 20)
    for how in ('tf32',) if tiny else ('tf32', 'bf16'):
        part('draws ahead', partial(prefetched, work, how, 6 if tiny else 24), 20)
    if not tiny:
        with threadpool_limits(CORES): part('search', partial(search, 12_000_000, 384), 45)
    for how in () if tiny else ('bf16', 'tf32', 'fp32'):
        part('compiled', partial(compiled, work, how, steps, peak), 120)
    keep(given.path, dict(what='end'))
    os._exit(0) # compilers that were stopped may still be at work


if __name__ == '__main__': main()
