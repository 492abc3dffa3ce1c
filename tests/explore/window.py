"""A window of headless Chromium that is driven as a person drives it: by the mouse and the keyboard.

Chromium speaks its DevTools protocol over two pipes, a JSON text and a zero byte per message.
"""

import base64
import json
import os
import shutil
import subprocess
import time

CHROMIUM, BASH = shutil.which("chromium"), shutil.which("bash")
COMPLAINTS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "Enter": 13, "Tab": 9}


class Window:
    """A page in a window of its own; `complaints` is whatever its console has shown."""

    def __init__(self, profile, address, width=1280, height=800, scheme="light"):
        self.number, self.session, self.rest, self.complaints = 0, None, b"", []
        theirs_in, self.outgoing = os.pipe()
        self.incoming, theirs_out = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
        options += ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"]
        options += ["--disable-component-update"]
        line = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        command = [BASH, "-c", line, "bash", CHROMIUM, *options, f"--user-data-dir={profile}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), **quiet)
        os.close(theirs_in)
        os.close(theirs_out)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.shape(width, height, scheme)
        self.call("Page.navigate", url=address)
        self.wait("location.protocol === 'http:' && document.readyState === 'complete'")

    def shape(self, width, height, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def call(self, method, **parameters):
        """Chromium's answer; the events that arrive before it are searched for complaints."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.outgoing, json.dumps(message).encode() + b"\0")
        while True:
            message = self.receive()
            if message.get("method") in COMPLAINTS:
                self.complaints.append(message["params"])
            if message.get("id") == self.number:
                assert "error" not in message, message["error"]
                return message["result"]

    def receive(self):
        while b"\0" not in self.rest:
            more = os.read(self.incoming, 1 << 20)
            assert more, "chromium has ended"
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def value(self, script):
        """The value of an expression on the page; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, script, seconds=20):
        """The value of an expression as soon as it is true."""
        end = time.monotonic() + seconds
        while not (value := self.value(script)):
            assert time.monotonic() < end, f"{script} did not become true; the console has {self.complaints}"
            time.sleep(0.02)
        return value

    def press(self, key, times=1):
        for _ in range(times):
            code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
            text = {"text": "\r"} if key == "Enter" else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def click(self, selector):
        script = (
            f"(e => (e.scrollIntoView(), e.getBoundingClientRect().toJSON()))(document.querySelector('{selector}'))"
        )
        box = self.value(script)
        where = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **where)

    def choose_file(self, selector, file):
        """Choose a file in an input, as a person does in the dialog it opens."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def picture(self, file):
        """Save a screenshot of the whole page."""
        shown = self.call("Page.captureScreenshot", captureBeyondViewport=False)
        file.write_bytes(base64.b64decode(shown["data"]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call("Browser.close")
        self.process.wait(20)
        os.close(self.outgoing)
        os.close(self.incoming)
