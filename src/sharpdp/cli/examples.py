"""Examples of command lines, one text for each command, as `sharpdp COMMAND --help` prints them."""

__all__ = ["EXAMPLES"]

DPSGD = """\
examples:
  sharpdp dpsgd --noise-multiplier 1 --sample-rate 0.01 --steps 1000 --delta 1e-5 1e-6
  sharpdp dpsgd --noise-multiplier 0.8 --dataset-size 60000 --batch-size 512 --epochs 30 \\
      --batches balls-and-bins --delta 1e-5 --json
  sharpdp dpsgd --noise-multiplier 1 --sample-rate 0.01 --steps 1000 --epsilon 1 -o profile.svg
  sharpdp dpsgd --plan plan.toml --noise-multiplier 1.2 --delta 1e-5
"""

SAMPLERS = """\
The same run over deterministic, shuffled, Poisson, truncated Poisson and fixed-size batches, balls in
bins and random allocation.

examples:
  sharpdp samplers --noise-multiplier 0.8 --dataset-size 60000 --batch-size 512 --epochs 30 \\
      --delta 1e-5 -o samplers.svg
  sharpdp samplers --plan plan.toml
"""

SHUFFLE = """\
examples:
  sharpdp shuffle --users 10000 --local-epsilon 4 --delta 1e-6
  sharpdp shuffle --users 10000 --local-epsilon 1 --rounds 100 --delta 1e-6
  sharpdp shuffle --users 1000 --local-epsilon 3 --population 1000000 --rounds 10000 --delta 1e-8
  sharpdp shuffle --users 300 --local-epsilon 2 --epsilon 0.5 -o profile.svg
  sharpdp shuffle --plan reports.toml --rounds 10
"""

SAMPLED = """\
example:
  sharpdp sampled-shuffle --users 2000 --population 60000 --local-epsilon 2 --rounds 6000 --delta 1e-5
"""

COMPOSE = """\
A mechanism is its name, its parameters, and how often it is run:

  NAME KEY=VALUE ... [x COUNT]

  gaussian             noise_multiplier=                     sensitivity 1
  laplace              scale=                                sensitivity 1
  randomized-response  local_epsilon= [categories=2]
  pure-dp              epsilon=                              any epsilon-DP mechanism
  approximate-dp       epsilon= delta=                       any (epsilon, delta)-DP mechanism
  finite-pair          p=0.5,0.5 q=0.25,0.75                 two pmfs on the same points
  dpsgd                noise_multiplier= sample_rate= steps= or dataset_size= batch_size= epochs=
                       [batches=poisson] and what the scheme takes
  shuffle              users= local_epsilon= [rounds=1] [population=] [randomizer=shared]

Quote each mechanism. The name of a plan file stands for what the plan runs.

examples:
  sharpdp compose "gaussian noise_multiplier=2 x 10" "laplace scale=1" --delta 1e-5
  sharpdp compose plan.toml "laplace scale=10" --delta 1e-4
"""

ACCOUNT = """\
A plan says what is run, as in the API, and where epsilon is asked for:

  delta = [1e-5, 1e-6]
  [mechanism]
  kind = "DPSGD"
  noise_multiplier = 0.8
  [mechanism.batches]
  kind = "ShuffledBatches"
  dataset_size = 60000
  batch_size = 512
  epochs = 30

Options change single values of it.

examples:
  sharpdp account plan.toml
  sharpdp account plan.toml --noise-multiplier 1 --epsilon 4
"""

REPORT = """\
The ending of the file says how the report is written; without one it is printed. Plans are explained
by sharpdp account --help.

examples:
  sharpdp report plan.toml
  sharpdp report plan.toml -o report.html
"""

VERIFY = """\
The report is computed again from the plan in it, and every field is compared: brackets by what they
claim, all else literally. A page (.html) is also compared with the data in it. Every field that is not
confirmed is listed with what it should say.

exit code: 0 confirmed; 1 not confirmed or contradicted; 2 cannot be read.

examples:
  sharpdp report plan.toml -o report.html
  sharpdp verify report.html
  sharpdp verify report.json --json
"""

SCHEMA = """\
examples:
  sharpdp schema plan
  sharpdp schema report > report.schema.json
"""

CALIBRATE = """\
The answer is on the safe side: its upper bound meets the target.

examples:
  sharpdp calibrate noise-multiplier --sample-rate 0.01 --steps 1000 --epsilon 1 --delta 1e-6
  sharpdp calibrate epochs --noise-multiplier 1 --dataset-size 60000 --batch-size 512 \\
      --tpr 0.05 --fpr 0.01
  sharpdp calibrate local-epsilon --users 1000 --epsilon 1 --delta 1e-6
  sharpdp calibrate population --users 1000 --local-epsilon 2 --rounds 5000 --epsilon 1 --delta 1e-6
  sharpdp calibrate noise-multiplier --plan plan.toml --epsilon 3
"""

COMPARE = """\
WHAT is one of
  samplers             every choice of batches for one DP-SGD run
  shuffle, dpsgd       every bound on that run, with the options of that command
  "NAME KEY=VALUE"     every bound on one mechanism, written as for sharpdp compose
  plan.toml            every bound on what a plan runs

examples:
  sharpdp compare samplers --noise-multiplier 0.8 --dataset-size 60000 --batch-size 512 \\
      --epochs 30 --delta 1e-5
  sharpdp compare shuffle --users 10000 --local-epsilon 1 --delta 1e-6
  sharpdp compare shuffle --users 300 --local-epsilon 1 --order 8 --json
  sharpdp compare shuffle --users 2000 --local-epsilon 2 --population 60000 --rounds 6000 --delta 1e-5
  sharpdp compare "gaussian noise_multiplier=2 x 10" --delta 1e-5
  sharpdp compare plan.toml
"""

TRADEOFF = """\
Name the run by mechanisms, as in `sharpdp compose`, by the options of `sharpdp dpsgd` or
`sharpdp shuffle`, or by a plan.

examples:
  sharpdp tradeoff --noise-multiplier 1 --sample-rate 0.01 --steps 1000 -o curve.svg
  sharpdp tradeoff "laplace scale=1 x 20" --fpr 0.001 0.01
  sharpdp tradeoff --users 1000 --local-epsilon 2
  sharpdp tradeoff plan.toml --fpr 0.001
"""

MIXTURE = """\
Components are finite pairs on the same points, written as for sharpdp compose; which one is run is
drawn with --weights and hidden. Bounds stand beside the mixture itself.

examples:
  sharpdp mixture "finite-pair p=0.75,0.25 q=0.25,0.75" "finite-pair p=0.25,0.75 q=0.75,0.25" \\
      --weights 0.75 0.25 --fpr 0.01 0.1
  sharpdp mixture "finite-pair p=0.9,0.1 q=0.1,0.9" "finite-pair p=0.5,0.5 q=0.5,0.5" \\
      --weights 0.1 0.9 --epsilon 0.1 -o mixture.svg
"""

RENYI = """\
examples:
  sharpdp renyi --orders 2 8 32 --values 0.01 0.05 0.4 --delta 1e-6
  sharpdp renyi --orders 2 8 32 --values 0.01 0.05 0.4 --epsilon 0.5 --json
"""

BOUNDS = """\
examples:
  sharpdp bounds
  sharpdp bounds gaussian_tight
"""

CITE = """\
examples:
  sharpdp cite gaussian_tight
  sharpdp cite > sources.bib
"""

SHELL = """\
examples:
  source <(sharpdp completion bash)
  source <(sharpdp completion zsh)
  sharpdp completion fish | source
"""

EXAMPLES = {
    "account": ACCOUNT,
    "bounds": BOUNDS,
    "calibrate": CALIBRATE,
    "cite": CITE,
    "compare": COMPARE,
    "completion": SHELL,
    "compose": COMPOSE,
    "dpsgd": DPSGD,
    "mixture": MIXTURE,
    "renyi": RENYI,
    "report": REPORT,
    "sampled-shuffle": SAMPLED,
    "samplers": SAMPLERS,
    "schema": SCHEMA,
    "shuffle": SHUFFLE,
    "tradeoff": TRADEOFF,
    "verify": VERIFY,
}
"""The text of each command."""
