"""The console in a browser: a person who opens pages, fills in forms and presses buttons."""

import json
from urllib.parse import quote, urlencode, urlsplit

from selenium.common.exceptions import NoAlertPresentException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from browser import PAGE_SECONDS

# Sends a request as a script of the page does.
FETCH = """
const [path, init, finish] = arguments;
fetch(path, {redirect: "manual", ...init}).then(async answer => finish({
    status: answer.status,
    kind: answer.type,
    headers: Object.fromEntries(answer.headers),
    body: await answer.text(),
})).catch(error => finish({failed: String(error)}));
"""

# True if the page is another one than that of `isLeft`, and complete.
NEXT_PAGE = "return window.isLeft === undefined && document.readyState === 'complete'"

FORM = "application/x-www-form-urlencoded"


class Console:
    """The console as one person sees it."""

    def __init__(self, driver, url):
        self.driver = driver
        self.url = url

    def open(self, path="/"):
        self.driver.get(self.url + path)
        return self

    def open_object(self, bucket, key):
        return self.open(f"/buckets/{bucket}/object?key={quote(key, safe='')}")

    @property
    def path(self):
        return urlsplit(self.driver.current_url).path

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        return [element.text for element in self.all(selector)]

    def fill(self, selector, text):
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def wait_for(self, is_true):
        """Waits until a page that changes by itself has changed."""
        ignored = [WebDriverException]
        wait = WebDriverWait(self.driver, PAGE_SECONDS, ignored_exceptions=ignored)
        wait.until(lambda _: is_true())

    def wait_for_text(self, selector, text):
        """Waits until an element has a text."""
        self.wait_for(lambda: self.find(selector).text == text)

    def unfold(self, summary):
        """Opens a part of the page that is folded."""
        self.driver.find_element(By.XPATH, f"//summary[normalize-space()='{summary}']").click()

    def leave_by(self, element, confirm=False):
        """Presses a button, and waits for the next page."""
        self.driver.execute_script("window.isLeft = true")
        element.click()
        if confirm:
            self.driver.switch_to.alert.accept()
        # While the browser changes the page, a command can fail.
        wait = WebDriverWait(self.driver, PAGE_SECONDS, ignored_exceptions=[WebDriverException])
        wait.until(lambda driver: driver.execute_script(NEXT_PAGE))

    def press(self, action, confirm=False):
        """Presses the button of an action."""
        self.leave_by(self.find(f"main button[name=action][value='{action}']"), confirm)

    def press_text(self, text, confirm=False):
        button = f"//button[normalize-space()='{text}']"
        self.leave_by(self.driver.find_element(By.XPATH, button), confirm)

    def log_in(self, access_key, secret, path="/"):
        """Fills in the form of the login."""
        self.open(path)
        self.fill("#access_key", access_key)
        self.fill("#secret", secret)
        self.press_text("Log in")

    def forget(self):
        self.driver.delete_all_cookies()

    @property
    def done(self):
        """The sentence about the change that was made."""
        return self.find("p.done").text

    def problem(self):
        """The sentence about a request that was refused."""
        return self.find(".problem").text

    @property
    def token(self):
        return self.find("input[name=form_token]").get_attribute("value")

    def fetch(self, path, **init):
        return self.driver.execute_async_script(FETCH, path, init)

    def post_by_hand(self, path, **fields):
        """Posts a form as a script of the page, with the cookie and the form token of the login.
        Returns the status, and 303 for a redirect."""
        body = urlencode({"form_token": self.token, **fields})
        answer = self.fetch(path, method="POST", body=body, headers={"Content-Type": FORM})
        assert "failed" not in answer, answer
        return 303 if answer["kind"] == "opaqueredirect" else answer["status"]

    def cookie(self):
        """The cookies of the login as a header."""
        return "; ".join(f"{it['name']}={it['value']}" for it in self.driver.get_cookies())

    def has_alert(self):
        try:
            self.driver.switch_to.alert.dismiss()
            return True
        except NoAlertPresentException:
            return False

    def requested(self):
        """Returns the URLs that the browser has requested since the last call."""
        events = [json.loads(it["message"])["message"] for it in self.driver.get_log("performance")]
        sent = [it for it in events if it["method"] == "Network.requestWillBeSent"]
        return [it["params"]["request"]["url"] for it in sent]

    def messages(self):
        """Returns the messages of the browser since the last call."""
        return [it["message"] for it in self.driver.get_log("browser")]


def is_ours(url, console):
    """True if a URL is of the console, or makes no request."""
    return url.startswith((f"{console}/", "data:", "blob:", "about:", "chrome"))
