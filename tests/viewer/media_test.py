#!/usr/bin/env python3
"""Attention pages over a picture, a sound, a video and a list in a real Chromium."""

import json
import struct
import xml.etree.ElementTree as ElementTree

from page_case import PageTest, main, setUpModule, tearDownModule


class MediaTest(PageTest):
    """A page with a medium."""

    def open(self, fragment=""):
        """Opens the page and waits until its picture has been decoded."""
        super().open(fragment)
        while not self.is_drawn("canvas.medium"):
            pass

    def colour(self, x, y, canvas="canvas.medium"):
        """Red, green and blue at a place of a canvas, both from 0 to 1."""
        return self.js(f"(() => {{ const c = document.querySelector({json.dumps(canvas)});"
                       "const copy = new OffscreenCanvas(1, 1).getContext('2d');"
                       f"copy.drawImage(c, {x} * c.width, {y} * c.height, 1, 1, 0, 0, 1, 1);"
                       "return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3); })()")

    def place(self, x, y):
        """A place of the medium in the window."""
        return self.js("(() => { const c = document.querySelector('canvas.medium');"
                       "c.scrollIntoView({block: 'nearest'}); const b = c.getBoundingClientRect();"
                       f"return [b.left + b.width * {x}, b.top + b.height * {y}]; }})()")


class PictureTest(MediaTest):
    """A caption over 6 x 6 patches."""

    page = "picture.html"
    fragment = "#part=cross&layer=2&head=mean"

    def test_a_word_lights_its_patches(self):
        plain = self.colour(0.75, 0.25)
        self.browser.mouse("mouseMoved", *self.word("sun"))
        self.assertRegex(self.text("#readout"), "^sun looks at row 2 column 5")
        lit, dark = self.colour(0.75, 0.25), self.colour(0.1, 0.1)
        self.assertGreater(sum(lit), sum(dark) + 120)
        self.assertNotEqual(lit, plain)
        self.away()
        self.assertEqual(self.colour(0.75, 0.25), plain)

    def test_a_patch_lights_the_words_that_look_at_it(self):
        self.browser.mouse("mouseMoved", *self.place(0.75, 0.25))
        self.assertRegex(self.text("#readout"), "^row 2 column 5 ?is looked at by ?sun")
        self.assertIn("sun", self.shaded())
        self.browser.click(*self.place(0.75, 0.25))
        self.away()
        self.assertTrue(self.text("#readout").startswith("row 2 column 5"))
        self.assertIn("key=11", self.js("location.hash"))
        self.browser.key("Escape")
        self.assertIn("Point at a word or a place", self.text("#readout"))

    def test_every_word_has_a_picture(self):
        self.assertEqual([self.text(f".strip-tile:nth-child({i}) bdi") for i in (1, 2, 3, 4)],
                         ["Picture", "sun", "above", "sea"])
        self.browser.mouse("mouseMoved", *self.middle(".strip-tile", 3))
        self.assertTrue(self.text("#readout").startswith("sea"))
        self.browser.click(*self.middle(".strip-tile", 3))
        self.assertEqual(self.text(".word.pinned"), "sea")

    def test_heads_are_pictures(self):
        self.assertEqual(self.count(".tile"), 3 + 3)
        self.assertTrue(self.is_drawn(".tile canvas"))
        self.browser.mouse("mouseMoved", *self.word("sun"))
        self.assertRegex(self.text(".tile .caption"), r"^\d+ %$|^\d\.\d %$")
        self.assertTrue(self.js("document.querySelector('.tile .marker').hidden"))

    def test_encoder(self):
        self.browser.click(*self.middle("#parts label", 0))
        self.assertEqual(self.count(".word"), 0)
        self.assertEqual(self.count("canvas.medium"), 1)
        self.browser.mouse("mouseMoved", *self.place(0.25, 0.75))
        self.assertRegex(self.text("#readout"), "^row 5 column 2 ?looks at ?row 5 column 2")
        self.browser.click(*self.middle("#directions label", 1))
        self.browser.mouse("mouseMoved", *self.place(0.25, 0.75))
        self.assertRegex(self.text("#readout"), "^row 5 column 2 ?is looked at by")
        self.browser.click(*self.middle("#parts label", 1))
        self.assertEqual(self.count("canvas.medium"), 0)
        self.assertEqual(self.count(".line"), 2)

    def test_keyboard(self):
        self.js("document.querySelector('canvas.medium').focus()")
        for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
            self.browser.key(key)
        self.assertTrue(self.text("#readout").startswith("row 2 column 2"))
        self.browser.key("Enter")
        self.js("document.activeElement.blur()")
        self.assertTrue(self.text("#readout").startswith("row 2 column 2"))
        self.assertIn("key=8", self.js("location.hash"))

    def test_opens_with_a_word(self):
        self.open()
        self.assertEqual(self.text("#parts input:checked + span"), "Cross-attention")
        self.assertEqual(self.text(".word.pinned"), "sun")
        self.assertEqual(self.text("#detail-title"), "Layer 2 · Mean of heads")

    def test_languages_and_phone(self):
        self.browser.size(390, 844, 2, mobile=True)
        for part in ("encoder", "cross"):
            self.open(f"#part={part}")
            self.assertLessEqual(self.js("document.scrollingElement.scrollWidth"), 390)
        self.browser.tap(*self.word("sea"))
        self.browser.wait_for("document.querySelector('.word.pinned') !== null")
        self.browser.tap(*self.place(0.75, 0.25))
        self.browser.wait_for("document.querySelector('#readout').textContent.startsWith('row 2 column 5')")
        self.browser.click(*self.middle("#language"))
        self.assertTrue(self.text("#readout").startswith("第 2 行第 5 列"))
        self.assertEqual(self.text(".stage h3"), "图片")
        self.browser.click(*self.middle("#language"))

    def test_save(self):
        self.browser.click(*self.word("sun"))
        svg = ElementTree.fromstring(self.saved("#save-svg", "attention-cross-layer-2-mean.svg"))
        texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("Cross-attention · Layer 2 · Mean of heads · sun", texts)
        self.assertIn("row 3", texts)
        self.assertEqual(len(list(svg.iter("{http://www.w3.org/2000/svg}image"))), 1)
        png = self.saved("#save-png", "attention-cross-layer-2-mean.png")
        width, height = struct.unpack(">II", png[16:24])
        self.assertGreater(min(width, height), 800)


class SoundTest(MediaTest):
    """Two words over three seconds."""

    page = "sound.html"
    fragment = "#part=cross&layer=2&head=1"

    def test_words_and_stretches(self):
        self.browser.mouse("mouseMoved", *self.word("one"))
        self.assertRegex(self.text("#readout"), r"^one looks at 0\.5\d–0\.9\d s")
        self.browser.mouse("mouseMoved", *self.place(38.5 / 60, 0.7))
        self.assertRegex(self.text("#readout"), "^1.90 s is looked at by two")
        self.browser.click(*self.middle("#parts label", 0))
        self.browser.mouse("mouseMoved", *self.place(38.5 / 60, 0.7))
        self.assertRegex(self.text("#readout"), r"^1.90 s looks at 1\.7\d–2\.1\d s")

    def test_keyboard(self):
        self.js("document.querySelector('canvas.medium').focus()")
        self.browser.key("End")
        self.browser.key("End")
        self.assertTrue(self.text("#readout").startswith("2.95 s"))


class VideoTest(MediaTest):
    """A class token over six frames."""

    page = "video.html"
    fragment = ""

    def test_frames(self):
        self.assertEqual(self.text(".word.pinned"), "class")
        self.assertRegex(self.text("#readout"), "^class looks at frame 3")
        self.js("document.querySelector('canvas.medium').focus()")
        for _ in range(4):
            self.browser.key("ArrowRight")
        self.assertTrue(self.text("#readout").startswith("frame 2 · row 1 column 1"))
        self.browser.key("ArrowLeft")
        self.assertTrue(self.text("#readout").startswith("frame 1 · row 1 column 3"))
        self.browser.size(390, 844, 2, mobile=True)
        self.open()
        self.assertLessEqual(self.js("document.scrollingElement.scrollWidth"), 390)


class ListTest(PageTest):
    """Items that look at those before them."""

    page = "list.html"
    fragment = ""

    def test_items(self):
        self.assertEqual(self.text(".word.pinned"), "item 444")
        self.assertEqual(self.text(".line h3"), "Items")
        self.assertGreater(len(self.shaded()), 2)


if __name__ == "__main__":
    main(__doc__)
