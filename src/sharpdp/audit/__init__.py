"""Does the running system agree with its certificate? Audits of runs, with a stated confidence.

`many_runs`, `one_run` and `Sequential` turn the scores of an attack into lower bounds on epsilon and
mu, and test a Guarantee against them: what is tested is the certified trade-off curve of the sampler
that ran.
"""

from sharpdp.audit.drawn_batches import SamplerAudit, sampler
from sharpdp.audit.findings import Finding
from sharpdp.audit.repeated_runs import many_runs
from sharpdp.audit.score_results import ScoreAudit
from sharpdp.audit.sequential import Sequential
from sharpdp.audit.single_run import one_run

__all__ = ["Finding", "SamplerAudit", "ScoreAudit", "Sequential", "many_runs", "one_run", "sampler"]
