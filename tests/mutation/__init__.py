"""What the tests of the decision rooms are worth: their code is changed in one place at a time, and a test must notice.

    make mutants
    python -m tests.mutation.run --room replication --module partition --minutes 10

cosmic-ray makes the mutants, with its operators and two of ours. They are tried here, because its own way is a new
process for each: the room's tests are collected once, and each mutant gets a forked child of that process, in which the
changed function takes the place of the live one. Only tests that ran the changed line are run: those first that
found other mutants there, then quick ones.

`rooms`      which modules are changed, and which tests are asked about them
`operators`  what is changed, and what not
`sites`      each place of a module where an operator changes something
`live`       a changed module in the place of the one that runs
`covering`   which tests run which lines
`trial`      one mutant in one forked child, and one whose change is at a module's top level
`results`    what is known from earlier runs, and from `explained/`: survivors with their reasons
`session`    pytest's loop, replaced by one over mutants
`run`        the command, and the report
"""
