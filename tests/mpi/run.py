#!/usr/bin/env python3
"""Starts tests/mpi/ranks.cpp or attention.cpp by mpirun, with one group of things to do, and looks at what it prints and
how it ends."""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

SKIPPED = 77
# How long ranks may take to end once one has failed, and how long a test may run.
SECONDS_TO_END = 10
TIMEOUT = 100

# Between processes of this machine, which may be a container without a network, by root too.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl": "self,vader",
               "OMPI_MCA_pml": "ob1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_oob_tcp_if_include": "lo",
               "HEADWAY_NUM_THREADS": "1"}
# Of a launcher that runs this script.
FOREIGN = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "HEADWAY_MPI_LIBRARY")


class Outcome:
    def __init__(self, code, text, seconds):
        self.code, self.text, self.seconds = code, text, seconds


def run(command, **environment):
    """Runs a command in a process group of its own, which ends with it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    start = time.monotonic()
    process = subprocess.Popen(command, env={**clean, **ENVIRONMENT, **environment}, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        text, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.terminate()  # mpirun ends its processes
        time.sleep(2)
        text = f"(ended after {TIMEOUT} s)"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    return Outcome(process.returncode, text, time.monotonic() - start)


class Tests:
    def __init__(self, ranks, library):
        self.ranks, self.library = ranks, library
        self.failed = 0

    def mpirun(self, count, *arguments, **environment):
        return run(["mpirun", "--oversubscribe", "-n", str(count), self.ranks, *arguments], **environment)

    def check(self, name, outcome, parts, fails=True):
        """Whether a run ended in time, with or without a failure, and printed every part so many times."""
        wrong = []
        if (outcome.code != 0) != fails:
            wrong.append(f"it ended with {outcome.code}")
        if fails and outcome.seconds > SECONDS_TO_END:
            wrong.append(f"it took {outcome.seconds:.1f} s to end")
        for part, count in parts.items():
            found = outcome.text.count(part)
            if found != count and not (count is None and found > 0):
                wrong.append(f"{part!r} is there {found} times, expected {count or 'some'}")
        self.failed += bool(wrong)
        print(f"{name}: {'; '.join(wrong) or 'good'} ({outcome.seconds:.1f} s)", flush=True)
        if wrong:
            print(outcome.text)

    def attention(self):
        for count in (2, 4):
            outcome = self.mpirun(count, "--gtest_color=no", HEADWAY_MPI_LIBRARY=self.library)
            self.check(f"attention over {count} ranks", outcome, {"[  PASSED  ] 1 test": count}, fails=False)

    def operations(self):
        for count in (2, 3, 4):
            self.check(f"operations on {count} ranks", self.mpirun(count, "operations"), {": good": count}, fails=False)
        self.check("a rank that ends before the others", self.mpirun(4, "end-early"), {": good": 4}, fails=False)

    def failures(self):
        """Ranks that throw. Nobody catches, or main() does."""
        for late in ("throw", "throw-late"):
            self.check(f"{late}, 4 ranks", self.mpirun(4, late),
                       {"headway: rank 1 has ended by an exception: the disk is full\n": 1,
                        "an exception: rank 1: the disk is full\n": 3, "good": 0})
        self.check("throw, caught by main()", self.mpirun(2, "caught", "throw"),
                   {"ranks: the disk is full\n": 1, "ranks: rank 1: it has ended with exit code 1\n": 1})
        self.check("fail()", self.mpirun(4, "caught", "fail"), {"ranks: rank 1: no more\n": 4})
        for name, sent, expected in (("long-for-short", 400000, 16), ("short-for-long", 16, 400000),
                                     ("longer", 400004, 400000)):
            message = f"MPI: a message of {sent} bytes came from rank 0, expected {expected} bytes\n"
            self.check(name, self.mpirun(2, "caught", name),
                       {f"ranks: {message}": 1, f"ranks: rank 1: {message}": 1})
        for name in ("drop", "drop-and-catch"):
            self.check(name, self.mpirun(2, "caught", name),
                       {"ranks: rank 1: it dropped messages that were not done\n": 1})
        self.check("ranks of two builds", self.mpirun(2, "builds", HEADWAY_MPI_LIBRARY=self.library),
                   {"different builds of Headway: rank 1 runs 0.3.0, rank 0 0.2.0": 2})

    def ends(self):
        """Processes that end, by themselves or not."""
        self.check("SIGKILL", self.mpirun(4, "kill"), {"process rank 1": None, "signal 9": None, "good": 0})
        for code, why in (("exit", "it has ended before the ranks that wait for it"),
                          ("exit-code", "it has ended with exit code 3")):
            self.check(f"{code}, 4 ranks", self.mpirun(4, "caught", code), {f"ranks: rank 1: {why}\n": 3, "good": 0})
        self.check("a rank that computes while another has failed", self.mpirun(2, "caught", "never-look"),
                   {"ranks: the disk is full\n": 1, "good": 0})

    def absence(self, mpich):
        """Programs without mpirun, without the library, or with the launcher of another MPI."""
        self.check("world() without mpirun", run([self.ranks, "world"], HEADWAY_MPI_LIBRARY="/nonexistent"),
                   {"one rank alone, 1 ranks": 1}, fails=False)
        self.check("world()", self.mpirun(2, "world"), {", 2 ranks": 2, "MPI (": 2}, fails=False)
        self.check("mpi() without mpirun", run([self.ranks, "operations"]), {"rank 0 of 1: good": 1}, fails=False)
        self.check("no library", self.mpirun(2, "caught", "operations", HEADWAY_MPI_LIBRARY="/nonexistent"),
                   {"libopenmpi-dev openmpi-bin": 2, "/nonexistent: cannot open": 2})
        self.check("another library", run([self.ranks, "caught", "operations"], HEADWAY_MPI_LIBRARY="libm.so.6"),
                   {"libm.so.6 is not an MPI engine of this version of Headway": 1})
        if mpich and shutil.which("mpirun.mpich"):
            self.check("another launcher", run(["mpirun.mpich", "-n", "2", self.ranks, "caught", "operations"]),
                       {"MPI: 2 processes were started, but MPI (Open MPI": None})
        # What sbatch runs is one process, whatever it sees; what srun starts is one of several.
        batch = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}
        self.check("a script of sbatch", run([self.ranks, "world"], **batch), {"one rank alone": 1}, fails=False)
        step = {**batch, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "HEADWAY_MPI_LIBRARY": "/nonexistent"}
        self.check("a step of srun", run([self.ranks, "world"], **step), {"libheadway_mpi cannot be opened": 1})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("group", choices=["attention", "operations", "failures", "ends", "absence"])
    parser.add_argument("ranks", type=pathlib.Path, help="the program mpi_ranks; for attention, mpi_attention")
    parser.add_argument("library", help="libheadway_mpi.so")
    parser.add_argument("--mpich", action="store_true", help="the library is Open MPI's, and MPICH is there too")
    arguments = parser.parse_args()
    if shutil.which("mpirun") is None:
        print("skipped: there is no mpirun (Debian and Ubuntu: openmpi-bin)")
        return SKIPPED
    if "Open MPI" not in run(["mpirun", "--version"]).text:
        print("skipped: mpirun is not Open MPI's")
        return SKIPPED
    tests = Tests(arguments.ranks.resolve(), arguments.library)
    if arguments.group == "absence":
        tests.absence(arguments.mpich)
    else:
        getattr(tests, arguments.group)()
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
