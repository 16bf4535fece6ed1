"""What the tests of pages in a real Chromium share: the browser, a page, and how to look at it."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from browser import Browser

options = argparse.Namespace()  # of the command line


def setUpModule():
    """Writes the pages and starts one browser for all tests."""
    work = pathlib.Path(options.work)
    subprocess.run([options.pages, str(work / "pages")], check=True)
    options.profile = tempfile.TemporaryDirectory()
    options.browser = Browser(options.chromium, options.profile.name)


def tearDownModule():
    """Ends the browser."""
    options.browser.close()
    options.profile.cleanup()


class PageTest(unittest.TestCase):
    """A page at 1280 x 900 in light colours; every test ends without a complaint and without a request."""

    page = "animal.html"
    fragment = "#part=encoder&layer=4&head=5"

    def setUp(self):
        self.browser = options.browser
        self.browser.prefer("light")
        self.browser.size(1280, 900)
        self.open(self.fragment)

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.browser.requests(), [])

    def open(self, fragment=""):
        """Opens the test's page and waits until its large map is drawn."""
        self.browser.open(pathlib.Path(options.work) / "pages" / self.page, fragment)
        self.browser.wait_for("document.querySelector('#maps figure:not([hidden]) figcaption').textContent === ''"
                              " && document.querySelector('.tile.chosen, .tile') !== null")
        self.browser.frame()

    def js(self, expression):
        """The value of an expression, after the frame in which earlier events are drawn."""
        self.browser.frame()
        return self.browser.evaluate(expression)

    def text(self, selector):
        """The text of the first element that a selector finds."""
        return self.js(f"document.querySelector({json.dumps(selector)}).textContent")

    def count(self, selector):
        """How many elements a selector finds."""
        return self.js(f"document.querySelectorAll({json.dumps(selector)}).length")

    def middle(self, selector, index=0):
        """The middle of an element, scrolled into sight."""
        return self.js(f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{index}];"
                       "e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();"
                       "return [b.left + b.width / 2, b.top + b.height / 2]; })()")

    def word(self, text, line=0):
        """The middle of a word of a sentence."""
        index = self.js(f"[...document.querySelectorAll('.sentence')[{line}].querySelectorAll('.word')]"
                        f".findIndex(w => w.textContent === {json.dumps(text)})")
        self.assertGreaterEqual(index, 0, text)
        return self.middle(f".line:nth-child({line + 1}) .word", index)

    def shaded(self):
        """Words with a ground of their own, and the CSS colour."""
        return self.js("Object.fromEntries([...document.querySelectorAll('.word')]"
                       ".filter(w => w.style.backgroundColor).map(w => [w.textContent, w.style.backgroundColor]))")

    def away(self):
        """Moves the pointer to where nothing is."""
        self.browser.mouse("mouseMoved", 640, 8)

    def is_drawn(self, selector):
        """Whether a canvas has more than one colour."""
        return self.js(f"(() => {{ const c = document.querySelector({json.dumps(selector)});"
                       "const copy = new OffscreenCanvas(c.width, c.height)"
                       ".getContext('2d', {willReadFrequently: true});"
                       "copy.drawImage(c, 0, 0);"
                       "const d = new Uint32Array(copy.getImageData(0, 0, c.width, c.height).data.buffer);"
                       "return new Set(d).size > 4; })()")

    def saved(self, button, name):
        """The bytes of the file that a button saves."""
        with tempfile.TemporaryDirectory() as folder:
            self.browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=folder)
            self.browser.click(*self.middle(button))
            path = pathlib.Path(folder) / name
            deadline = time.monotonic() + 20
            while not path.exists() and time.monotonic() < deadline:
                self.browser.frame()
                time.sleep(0.05)
            return path.read_bytes()


def main(description):
    """Runs the tests of the script that was started."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--chromium", required=True, help="the browser")
    parser.add_argument("--pages", required=True, help="the program write_pages")
    parser.add_argument("--work", required=True, help="a folder for the pages")
    parser.parse_known_args(namespace=options)
    rest = parser.parse_known_args()[1]
    unittest.main(argv=[sys.argv[0], *rest])
