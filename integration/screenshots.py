"""Pictures of the report's sample page: `python screenshots.py FOLDER` writes `report-light.png` and `report-dark.png`."""

from __future__ import annotations

import base64
import subprocess
import sys
import tempfile
from pathlib import Path

from browser import Browser

SAMPLE = Path(__file__).resolve().parents[1] / "target/debug/examples/sample"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as beside, Browser() as browser:
        page = Path(beside) / "report.html"
        page.write_bytes(subprocess.run([SAMPLE], check=True, capture_output=True).stdout)
        browser.open(page)
        for scheme in ("light", "dark"):
            browser.show(1280, scheme, height=860)
            picture = browser.call("Page.captureScreenshot", format="png")["data"]
            (folder / f"report-{scheme}.png").write_bytes(base64.b64decode(picture))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
