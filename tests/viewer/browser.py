"""Chromium without a window, driven over its debugging pipe with the standard library alone."""

import base64
import json
import os
import pathlib
import select
import subprocess
import time


class BrowserError(Exception):
    """What the browser or a script in the page complained about."""


class Browser:
    """One headless Chromium with one tab; use it as a context manager."""

    def __init__(self, program, profile):
        read_end, self._write = os.pipe()
        self._read, write_end = os.pipe()
        command = [program, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-first-run",
                   "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars",
                   "--force-color-profile=srgb", "--mute-audio", "--lang=en-US"]
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium refuses root otherwise
        # The browser reads from descriptor 3 and writes to 4, whatever numbers the pipes have here.
        script = f'exec "$0" "$@" 3<&{read_end} 4>&{write_end} 2>/dev/null'
        self._process = subprocess.Popen(["sh", "-c", script, *command, "about:blank"], pass_fds=(read_end, write_end),
                                         stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        os.close(read_end)
        os.close(write_end)
        self._buffer = b""
        self._next_id = 0
        self._session = None
        self.events = []
        targets = self._until_ready()
        page = next(one for one in targets if one["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the browser."""
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(10)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        for descriptor in (self._read, self._write):
            os.close(descriptor)

    def _until_ready(self):
        deadline = time.monotonic() + 60
        while True:
            targets = self.call("Target.getTargets")["targetInfos"]
            if any(one["type"] == "page" for one in targets):
                return targets
            if time.monotonic() > deadline:
                raise BrowserError("Chromium opened no page within a minute")
            time.sleep(0.1)

    def _message(self, timeout):
        """The next message, or None when none came in time."""
        deadline = time.monotonic() + timeout
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise BrowserError("Chromium went away")
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, timeout=60, **parameters):
        """Sends a command of the DevTools protocol and gives its result; events on the way are kept."""
        self._next_id += 1
        request = {"id": self._next_id, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        while True:
            message = self._message(timeout)
            if message is None:
                raise BrowserError(f"no answer to {method} within {timeout} s")
            if message.get("id") == self._next_id:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']['message']}")
                return message["result"]
            if "method" in message:
                self.events.append(message)

    def evaluate(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise BrowserError(result["exceptionDetails"].get("exception", {}).get("description", str(result)))
        return result["result"].get("value")

    def wait_for(self, expression, timeout=20):
        """Waits until a JavaScript expression is true."""
        deadline = time.monotonic() + timeout
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise BrowserError(f"not true within {timeout} s: {expression}")
            time.sleep(0.02)

    def size(self, width, height, scale=1, mobile=False):
        """Sets the size of the window, the pixels per unit, and whether it is a phone."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=mobile)
        self.call("Emulation.setTouchEmulationEnabled", enabled=mobile)

    def prefer(self, scheme):
        """Makes the system prefer "light" or "dark"."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path, fragment=""):
        """Opens a file afresh and waits until its script has run; events of before are forgotten."""
        self.call("Page.navigate", url="about:blank")
        self.events = []
        address = pathlib.Path(path).resolve().as_uri() + fragment
        self.call("Page.navigate", url=address)
        self.wait_for("document.documentElement?.dataset.ready === 'true'", 60)

    def mouse(self, kind, x, y, **more):
        """A mouse event: "mouseMoved", "mousePressed" or "mouseReleased"."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y, modifiers=0):
        """A click of the left button."""
        self.mouse("mouseMoved", x, y, modifiers=modifiers)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1, modifiers=modifiers)

    def tap(self, x, y):
        """A tap of one finger."""
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def key(self, key, modifiers=0):
        """Presses and releases a key, given by its DOM name."""
        code = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
                "Home": 36, "End": 35, " ": 32}.get(key, ord(key[0]))
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def frame(self):
        """Waits until two frames were drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def screenshot(self, path):
        """Writes what is seen as a PNG file."""
        self.frame()
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        """Errors and warnings of the console, uncaught errors, and log entries since open()."""
        found = []
        for event in self.events:
            parameters = event["params"]
            if event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(one.get("value", one.get("description"))) for one in parameters["args"]))
            elif event["method"] == "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
        return found

    def requests(self):
        """Addresses that the page asked for since open(), itself excluded."""
        sent = [event["params"]["request"]["url"] for event in self.events
                if event["method"] == "Network.requestWillBeSent"]
        return [url for url in sent[1:] if not url.startswith(("data:", "blob:"))]
