"""Takes the pictures of the console in README.md.

    python console_images.py PROGRAM

The script starts the program with a volume of its own, fills it with examples, and writes
`docs/images/console-*.png`. Run it again when the pages have changed.
"""

import sys
import tempfile
from pathlib import Path

import browser
from api import operator
from console import Console
from program import gateway

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LIMIT_BYTES = 150_000
SCREEN = {"width": 1120, "deviceScaleFactor": 1, "mobile": False}
MIB = 1 << 20

# The buckets, each with its changes and the sizes of its objects.
BUCKETS = {
    "backups": (
        {"quota": {"bytes": 200 * MIB, "objects": None}},
        {"db/monday.dump": 48 * MIB, "db/tuesday.dump": 51 * MIB, "db/wednesday.dump": 53 * MIB},
    ),
    "datasets": (
        {"trash": {"days": 30}},
        {"weather/2025.parquet": 9 * MIB, "weather/2026.parquet": 7 * MIB},
    ),
    "photos": (
        {},
        {
            **{f"2026/{month:02}/harbour.jpg": 900_000 for month in (5, 6)},
            "2026/contact-sheet.pdf": 2_400_000,
            "2026/selection.csv": 18_211,
            "2026/harbour.jpg": 3_182_044,
            "2026/lighthouse.jpg": 2_911_870,
            "2026/notes.md": 4_096,
        },
    ),
    "website": ({"public": {"access": "download"}}, {"index.html": 5_120, "style.css": 2_048}),
}

# The pictures, each with its path, its color scheme and its height.
PICTURES = {
    "buckets": ("/buckets", "light", 600),
    "objects": ("/buckets/photos/objects?prefix=2026/", "dark", 840),
}


def fill(server):
    api = operator(server)
    s3 = api.s3()
    for bucket, (changes, objects) in BUCKETS.items():
        api("PUT", f"/buckets/{bucket}", {"versioning": bucket == "photos"}, expect=200)
        for name, body in changes.items():
            api("PUT", f"/buckets/{bucket}/{name}", body, expect=200)
        for key, size in objects.items():
            s3.put_object(Bucket=bucket, Key=key, Body=bytes(size))


def take(driver, console, name, picture):
    """Writes the picture of a page."""
    path, scheme, height = picture
    screen = {**SCREEN, "height": height}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    console.open(path)
    image = IMAGES / f"console-{name}.png"
    image.write_bytes(driver.get_screenshot_as_png())
    size = image.stat().st_size
    assert size <= LIMIT_BYTES, f"{image.name} has {size} bytes"
    print(f"{image.name}: {size} bytes")


def main():
    program = sys.argv[1]
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, gateway(program, Path(folder)) as (server, _):
        fill(server)
        driver = browser.start(Path(folder) / "profile")
        try:
            driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
            console = Console(driver, server.console)
            console.log_in(server.access_key, server.secret_key)
            for name, picture in PICTURES.items():
                take(driver, console, name, picture)
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
