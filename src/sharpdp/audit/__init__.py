"""Does the running system agree with its certificate? Audits of runs, with a stated confidence.

`many_runs`, `one_run` and `Sequential` turn the scores of an attack into lower bounds on epsilon and mu,
and test a Guarantee against them: its certified trade-off curve, that of the very sampler that ran.
`sampler` tests the index batches of a loader, `replay` what a training step does on neighboring data,
and `canaries` trains a model with canaries and audits the run.
"""

from sharpdp.audit.canary_runs import CanaryAudit, canaries
from sharpdp.audit.drawn_batches import SamplerAudit, sampler
from sharpdp.audit.findings import Finding
from sharpdp.audit.recording import ReplayAudit, replay
from sharpdp.audit.repeated_runs import many_runs
from sharpdp.audit.score_files import audit_file
from sharpdp.audit.score_results import ScoreAudit
from sharpdp.audit.sequential import Sequential
from sharpdp.audit.single_run import one_run
from sharpdp.audit.training_steps import opacus_step, training_step, zeroed

__all__ = [
    "CanaryAudit",
    "Finding",
    "ReplayAudit",
    "SamplerAudit",
    "ScoreAudit",
    "Sequential",
    "audit_file",
    "canaries",
    "many_runs",
    "one_run",
    "opacus_step",
    "replay",
    "sampler",
    "training_step",
    "zeroed",
]
