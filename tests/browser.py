"""A page as a browser sees it: what it complains about, and which pictures it could not show."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape

CHROMIUM = shutil.which("chromium")

# The page is inspected from outside, in a frame, so that it is the very file that users get, with its own restrictions.
OUTSIDE = """<!DOCTYPE html><iframe src="{name}" width="{width}" height="800"></iframe><pre></pre><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument, root = page.documentElement;
  const pictures = [...page.images].map(i => [i.alt, i.complete ? i.naturalWidth : 0]);
  const background = getComputedStyle(page.body).backgroundColor, answer = (() => {{ {act} }})();
  const seen = {{ pictures, background, answer, width: root.clientWidth, scroll: root.scrollWidth }};
  document.querySelector("pre").textContent = "seen:" + JSON.stringify(seen) + ":seen";
}};
</script>"""


@dataclass(frozen=True)
class Seen:
    """Errors of the console, (text, width in pixels) of each picture, by how much the page is too wide, the color
    behind everything, and what an act on the page returned.
    """

    errors: list[str]
    pictures: list[tuple[str, int]]
    too_wide: int
    background: str
    answer: object

    @property
    def missing(self):
        """The pictures that are not shown."""
        return [text for text, width in self.pictures if width == 0]


def look(page, profile, width=1000, dark=False, act="return null;"):
    """Load `page` in headless Chromium, in a window of `width` pixels, and carry out `act`, the body of a function."""
    outside = page.with_name("outside.html")
    outside.write_text(OUTSIDE.format(name=page.name, width=width, act=act))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"]
    options += [f"--user-data-dir={profile}", "--allow-file-access-from-files", "--virtual-time-budget=5000"]
    options += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    command = [CHROMIUM, *options, "--dump-dom", outside.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    outside.unlink()
    found = re.search(r"seen:(.*):seen", done.stdout)
    assert found, f"the page was not loaded: {done.stderr[-2000:]}"
    seen = json.loads(unescape(found[1]))
    errors = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    pictures, too_wide = [tuple(picture) for picture in seen["pictures"]], seen["scroll"] - seen["width"]
    return Seen(errors, pictures, too_wide, seen["background"], seen["answer"])
