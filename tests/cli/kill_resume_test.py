"""The short form of tools/kill_resume.py: runs that are killed and resumed by their directory end with the same bits."""

import pathlib
import subprocess
import sys

import program_test

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools/kill_resume.py"


class KillResume(program_test.ProgramTest):
    """headway train, headway finetune"""

    def test_two_kills(self):
        done = subprocess.run([sys.executable, "-B", str(SCRIPT), "--program", program_test.program, "--kills", "2",
                               "--steps", "80", "--share", "0.8"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("2 kills"), 2, done.stdout)
