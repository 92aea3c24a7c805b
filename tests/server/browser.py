"""Headless Chromium, driven through its pipe: no package is needed.

write fd 3 ──> {"id": 1, "method": "Page.navigate", ...}\\0
read fd 4  <── {"id": 1, "result": ...}\\0, and events
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
FLAGS += ("--disable-background-networking", "--disable-component-update", "--disable-sync")
FLAGS += ("--remote-debugging-pipe", "--hide-scrollbars")
KEYS = {"Enter": 13, "Tab": 9}
CONTROL, SHIFT = 2, 8


class Browser:
    """One page of a browser."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, os.fdopen(back, "rb", buffering=0)
        self._rest, self._number, self._session = b"", 0, ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = self._back.read(65536)
            assert data, "the browser has ended"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        """Keep what the page loads, and what the browser complains about."""
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
        elif event.get("method") == "Log.entryAdded":
            self.complaints.append(event["params"]["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(event["params"]["exceptionDetails"]))

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, script: str, seconds: float = 600) -> None:
        """Wait until an expression is true. The limit is against hangs only."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"still false: {script}"
            time.sleep(0.05)

    def open(self, url: str, width: int, height: int = 900) -> None:
        """Open a page in a window of a size."""
        self.resize(width, height)
        self.call("Page.navigate", url=url)
        self.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")

    def resize(self, width: int, height: int = 900) -> None:
        """Set the size of the window in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press a key."""
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        text = {"text": "\r"} if key == "Enter" and not modifiers else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", modifiers=modifiers, **code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", modifiers=modifiers, **code)

    def type(self, text: str) -> None:
        """Insert a text where the focus is."""
        self.call("Input.insertText", text=text)

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium; it has ended after the block."""
    assert CHROMIUM
    reads, to = os.pipe()
    back, writes = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The browser expects its pipe at the numbers 3 and 4.
        script = f'exec 3<&{reads} 4>&{writes}; exec "$0" "$@"'
        command = ["bash", "-c", script, CHROMIUM, *FLAGS, f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            command, pass_fds=(reads, writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(reads)
        os.close(writes)
        try:
            yield Browser(to, back)
        finally:
            process.terminate()
            process.wait()
            os.close(to)
