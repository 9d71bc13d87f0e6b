"""Chromium without a window, which selenium drives."""

import shutil

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

PAGE_SECONDS = 60

# Chromium starts as root in containers, without a sandbox, and loads only the pages of tests.
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def installed(program):
    found = shutil.which(program)
    assert found, f"{program} is not installed"
    return found


def start(profile, downloads=None, logs=False):
    """Starts a browser with the folder `profile`. Files that it downloads are in `downloads`. With
    `logs`, it keeps its messages and the events of its network."""
    options = webdriver.ChromeOptions()
    options.binary_location = installed("chromium")
    for switch in (*SWITCHES, f"--user-data-dir={profile}"):
        options.add_argument(switch)
    if downloads:
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    if logs:
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # The gateway's certificate comes from an authority of this run.
    options.accept_insecure_certs = True
    driver = webdriver.Chrome(options, Service(installed("chromedriver")))
    driver.set_page_load_timeout(PAGE_SECONDS)
    driver.set_script_timeout(PAGE_SECONDS)
    return driver
