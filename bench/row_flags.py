"""The command line that the Python benchmarks of rows share."""

import argparse
import dataclasses
import os
import sys


@dataclasses.dataclass
class Pace:
    """How long a row is measured: seconds, and rounds at least."""

    seconds: float
    rounds: int


def row_parser(description, usual, quick):
    """A parser with the common options; flags_of() reads it."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--filter", default="", metavar="WORDS", help="only rows whose name has every word")
    parser.add_argument("--threads", default="both", choices=["1", "all", "both"])
    parser.add_argument("--seconds-per-row", type=float, default=usual.seconds)
    parser.add_argument("--min-rounds", type=int, default=usual.rounds)
    help_of_quick = f"{quick.seconds:g} seconds per row, {quick.rounds} rounds at least"
    parser.add_argument("--quick", action="store_true", help=help_of_quick)
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="time the processor instead of the wall: for one thread while others use the machine",
    )
    parser.add_argument("--json", metavar="PATH", help="write the results there")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.set_defaults(quick_pace=quick)
    return parser


def flags_of(parser):
    """What was asked for."""
    flags = parser.parse_args()
    if flags.quick:
        flags.seconds_per_row, flags.min_rounds = flags.quick_pace.seconds, flags.quick_pace.rounds
    return flags


def run_program(name, main):
    """Ends the program with main()'s status; 2 where it throws, because 1 says that a row failed."""
    try:
        sys.exit(main())
    except Exception as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(2)


def thread_counts(flags):
    """The numbers of threads to measure with, fewest first."""
    cpus = os.cpu_count()
    return {"1": [1], "all": [cpus], "both": sorted({1, cpus})}[flags.threads]


def run_rows(program, rows, flags, measure_all, write_json):
    """Lists or measures the rows of {name: row} that --filter leaves; the exit status: 1 where a row failed."""
    chosen = {name: row for name, row in rows.items() if all(word in name for word in flags.filter.split())}
    if flags.list:
        print("\n".join(chosen))
        return 0
    if not chosen:
        sys.exit(f"{program}: no row matches {flags.filter}; --list prints their names")
    machine = measure_all(list(chosen.values()), flags)
    if flags.json:
        write_json(flags.json, machine)
    return int(any(row["failure"] for row in machine["rows"]))
