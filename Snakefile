# The runs as a graph. `modit main` starts it; by hand:
#   snakemake --workflow-profile workflow/profiles/local --config profile=mini [--dry-run] [main | paper]
# The path of every stage bears a key of the settings, the code and the parents it was made from: a file that
# exists is up to date, whatever its age, so inputs are `ancient`. Stages write their file whole or not at all.
from modit.pipeline import VARIANTS, stage_path
from modit.runner import experiments, run_marker, executed_path
from modit.settings import load_settings

PROFILE = config.get('profile', 'mini')
S = load_settings(PROFILE)
MAIN = ('30_data', '31_density', '32_main', '38_bootstrap')

# (stage, domain): the stages it is made from; None means all domains together. A job is a process of some seconds
# before it computes anything, so one makes a corpus with its domain, and one all preference variants of a domain,
# the last of which stands for them here.
GRAPH = {('pretrained', None): [], ('cpt', None): [('pretrained', None)] + [('corpus', d) for d in S.domains]}
for d in S.domains:
    GRAPH['corpus', d] = []
    GRAPH['sft', d] = [('cpt', None), ('corpus', d)]
    GRAPH[VARIANTS[-1], d] = [('sft', d)]

# An experiment: what must be there before it starts. Most read the main experiment's scores or choice of variants.
MODELS = [str(stage_path(S, *node)) for node in GRAPH]
CORPORA = [str(stage_path(S, 'corpus', d)) for d in S.domains]
MARK = {name: str(run_marker(S, name)) for name in experiments()}
NEEDS = {name: MODELS + [MARK['32_main']] for name in experiments()}
NEEDS |= {'30_data': CORPORA, '31_density': CORPORA, '32_main': MODELS, '33_order': MODELS,
          '42_targets': [MARK['33_order']], '45_jacobi': [MARK['33_order']],  # which makes their single-domain stages
          '43_negative': [MARK['32_main'], MARK['35_pareto']],                # which makes the long off-policy run
          '46_steered': [MARK['44_baselines']], '50_claims': [m for n, m in MARK.items() if n != '50_claims']}

def command(stage, domain):
    words = ('hppo', domain, '--variant', 'all') if stage in VARIANTS else (stage, domain)
    return f"modit stage {' '.join(w for w in words if w)} --profile {PROFILE}"

wildcard_constraints: experiment=r'\d\d_\w+'

rule main:
    input: [run_marker(S, name) for name in MAIN]

rule paper:
    input: [run_marker(S, name) for name in experiments()]

for node, parents in GRAPH.items():
    rule:
        name: '_'.join(filter(None, node))
        input: [ancient(str(stage_path(S, *p))) for p in parents]
        output: str(stage_path(S, *node))
        params: command=command(*node)
        priority: 0 if node[0] in VARIANTS else 1
        shell: '{params.command}'

for name in experiments():
    rule:
        name: f'run_{name}'
        input: [ancient(p) for p in NEEDS[name]]
        output: str(run_marker(S, name))
        log: str(executed_path(S.profile, name))
        params: command=f'modit run {name} --profile {PROFILE} --fresh'
        shell: '{params.command}'
