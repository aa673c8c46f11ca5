"""Tests the web page of a run, and its report, in headless Chromium. Each test goes on where the one before it ended."""

import json
import re

import pytest
from playwright.sync_api import expect

from browser import FOLDER, browser
from local import OUT, built, ready, run_tests

# The messages of one event, as in the folder `events` of a project.
SAMPLES = [
    {"messageId": "s-1", "body": '{"order_id": "o-7"}'},
    {"messageId": "s-2", "body": '{"order_id": "o-8"}', "attributes": {"MessageGroupId": "customers"},
     "messageAttributes": {"tenant": {"dataType": "String", "stringValue": "acme"}}},
]
HACK = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
COLUMNS = ("queue", "flight", "done", "dead")


class Run:
    """The example program, which reads one command per line and serves the page."""

    def __init__(self, child, url):
        self.child, self.url = child, url

    def do(self, *commands):
        """Sends these commands, one after the other."""
        for command in commands:
            self.child.stdin.write(command + "\n")
            answer = self.child.stdout.readline().strip()
            assert answer == "ok", f"{command}: {answer}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    samples = tmp_path_factory.mktemp("samples")
    (samples / "orders.json").write_text(json.dumps({"Records": SAMPLES}))
    with ready([built("examples/page"), samples]) as (child, url):
        yield Run(child, url)


@pytest.fixture(scope="module")
def page(run):
    with browser() as chromium:
        page = chromium.new_page(viewport={"width": 1400, "height": 900})
        page.goto(run.url)
        yield page


@pytest.fixture(autouse=True)
def content(page, run):
    """A test fails if the page complains and the test has not expected it. Without its server, a page may complain."""
    yield
    assert run.child.poll() is not None or complaints(page) == []


def complaints(page):
    """The new errors and warnings in the console: exceptions, failed requests and what the content security policy forbids,
    which is every request to another server."""
    lines = [line.text for line in page.console_messages() if line.type in ("error", "warning")]
    errors = [str(error) for error in page.page_errors()]
    page.clear_console_messages()
    page.clear_page_errors()
    return lines + errors


def see(page, selector, words):
    """Waits until an element shows these words, or all of them in this order."""
    if not isinstance(words, str):
        words = re.compile(".*".join(map(re.escape, words)), re.DOTALL)
    expect(page.locator(selector)).to_contain_text(words, use_inner_text=True)


def has(page, column, words):
    """Waits until a column's list shows these words."""
    see(page, f"#list-{column}", words)


def is_text(page, selector, text):
    """Waits until this is all of an element's text."""
    expect(page.locator(selector)).to_have_text(text)


def timeline_of(page, title):
    """Waits until the timeline with this title is open."""
    expect(page.locator("#panel").get_by_role("heading", name=title, exact=True)).to_be_visible()


def open_chip(page, title):
    """Clicks a message's chip, and waits until its timeline is open."""
    page.locator(".chip").and_(page.get_by_title(title, exact=True)).first.click()
    timeline_of(page, title)


def open_form(page):
    page.click("#open-send")
    expect(page.locator("#send")).to_be_visible()


def sent_by_form(page):
    """Sends what is in the form. Returns the new message's id."""
    page.click("#send-go")
    expect(page.locator("#send")).to_be_hidden()
    see(page, "#said", "sent ")
    return page.locator("#said").inner_text().removeprefix("sent ")


def numbers(page):
    """The numbers of the headline by their names."""
    buttons = page.locator("#story button").all()
    numbers = {it.get_attribute("data-number"): int(it.locator("b").text_content().replace(",", "")) for it in buttons}
    assert numbers["sent"] == sum(numbers[column] for column in COLUMNS) > 0, numbers
    return numbers


def grows(page, before, **more):
    """Waits until the numbers of the headline are larger by these, and the others are as before."""
    after = {name: count + more.get(name, 0) for name, count in before.items()}
    expect(page.locator("#story b")).to_have_text(list(map(str, after.values())))
    return numbers(page)


def test_a_message_moves_through_the_columns_live(page, run):
    is_text(page, "#connection", "live")
    run.do('send m-1 {"order_id": "o-1"}')
    has(page, "queue", "m-1")
    run.do("take")
    has(page, "flight", "m-1")
    run.do("answer")
    has(page, "done", "o-1 processed orders#o-1 · m-1")
    expect(page.locator("output")).to_have_text(["0", "0", "1", "0"])


def test_a_click_opens_the_timeline(page):
    open_chip(page, "m-1")
    see(page, "#timeline", [
        "sent to orders",
        "receive 1 by environment 1 · request request-1",
        "a batch has come",
        "INFO  charging the card  cents=1250",
        "processed in 13 ms",
        "claimed",
        "effect happened",
        "completed",
        "key orders#o-1",
        "deleted from orders",
        "acknowledged",
    ])
    is_text(page, "#body", '{"order_id": "o-1"}')
    page.uncheck("#other")
    expect(page.get_by_text("a batch has come")).to_be_hidden()
    page.check("#other")
    page.click("#close")
    expect(page.locator("#panel")).to_be_hidden()


def test_a_failing_message_is_redelivered_and_redriven_and_its_open_timeline_is_updated(page, run):
    run.do("send m-2 {}", "take", "answer m-2=failed")
    has(page, "queue", "failed: back in 60 min m-2")
    open_chip(page, "m-2")
    see(page, "#timeline", "the card was <b>declined</b>")
    run.do("back")
    has(page, "queue", "failed: visible again m-2")
    run.do("take")
    see(page, "#timeline", "receive 2 by environment 1")
    has(page, "flight", "receive 2 m-2")
    run.do("log a line that names nobody")
    see(page, "#timeline", "a line that names nobody")
    run.do("crash")
    see(page, "#timeline", "environment 1 ended: killed by signal 9")
    run.do("back", "take")
    has(page, "dead", "m-2")
    see(page, "#facts", "a dead letter")
    page.click("#redrive")
    is_text(page, "#said", "1 message was redriven")
    is_text(page, "#count-queue", "1")
    is_text(page, "#count-dead", "0")
    see(page, "#facts", "Goes on as")
    other = page.locator("#facts .link:not(.key)")
    other.click()
    see(page, "#timeline", "redriven from orders-dlq")
    other.click()
    timeline_of(page, "m-2")
    page.click("#close")
    run.do("take", "answer")


def test_buttons_send_a_message_and_send_it_again_with_the_same_id(page, run):
    open_form(page)
    page.click("#send-go")
    see(page, "#send-refused", "the parameter MessageBody")
    (conflict,) = complaints(page)
    assert "409 (Conflict)" in conflict
    page.fill("#send-body", '{"order_id": "by hand"}')
    sent = sent_by_form(page)
    has(page, "queue", "by hand")
    open_chip(page, sent)
    page.click("#duplicate")
    expect(page.locator(f".chip[title='{sent}']")).to_have_count(2)
    see(page, "#facts", "Same id")
    run.do("take", f"answer {sent}=duplicate")
    has(page, "done", "duplicate")
    page.click("#close")


def test_the_filter_matches_ids_and_a_number_of_the_headline_is_a_filter(page):
    page.keyboard.press("/")
    expect(page.locator("#filter")).to_be_focused()
    page.keyboard.type("m-2")
    has(page, "dead", "m-2")
    expect(page.locator(".chip")).to_have_count(1)
    is_text(page, "#count-done", "0 of 4")
    page.fill("#filter", "")
    done = page.locator("#list-done .chip")
    page.click("[data-number=duplicates]")
    expect(done).to_contain_text(["duplicate"] * 2)
    page.click("[data-number=duplicates]")
    expect(done).not_to_have_count(2)


def test_the_form_offers_the_messages_of_the_sample_events_and_all_of_it_can_be_edited(page, run):
    open_form(page)
    options = page.locator("#send-sample option")
    expect(options).to_have_text(["choose one", "orders.json 1: o-7", "orders.json 2: o-8"])
    page.select_option("#send-sample", "1")
    tenant = {"tenant": {"DataType": "String", "StringValue": "acme"}}
    assert page.input_value("#send-body") == '{"order_id": "o-8"}'
    assert json.loads(page.input_value("#send-attributes")) == tenant
    assert page.input_value("#send-group") == "customers"
    expect(page.locator("#send-deduplication"), "the queue is no FIFO queue").to_be_hidden()
    page.fill("#send-attributes", "{")
    page.click("#send-go")
    see(page, "#send-refused", "are not JSON")
    page.fill("#send-attributes", json.dumps(tenant).replace("acme", "edited"))
    page.fill("#send-body", '{"order_id": "o-9"}')
    sent = sent_by_form(page)
    has(page, "queue", "o-9")
    open_chip(page, sent)
    see(page, "#facts", ["customers", "edited"])
    page.click("#close")
    run.do("take", "answer")
    has(page, "done", "o-9")


def test_faults_are_switched_and_shown_also_when_the_page_is_reloaded(page):
    now, duplicate = page.locator("#faults-now"), page.locator("#fault-duplicate")
    expect(now).to_have_text("none")
    page.focus("#faults summary")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(duplicate).to_be_focused()
    page.keyboard.press(" ")
    expect(now).to_have_text("duplicate 20%")
    page.check("#fault-kill")
    expect(now).to_have_text("duplicate 20%, kill 5%")
    page.get_by_label("kill, in percent").fill("0.5")
    page.keyboard.press("Enter")
    expect(now).to_have_text("duplicate 20%, kill 0.5%")
    # The second of two quick changes waits for the first one's answer, which does not undo it.
    held = []
    page.route("**/faults", lambda route: held.append(route))
    with page.expect_request("**/faults"):
        page.check("#fault-drop-response")
    duplicate.uncheck()
    assert len(held) == 1, "both changes were sent at once"
    with page.expect_request("**/faults"):
        held[0].continue_()
    assert not duplicate.is_checked(), "the first answer undid the second change"
    held[1].continue_()
    expect(now).to_have_text("kill 0.5%, drop-response 1%")
    page.unroute_all()
    page.reload()
    expect(now).to_have_text("kill 0.5%, drop-response 1%")
    page.click("#faults summary")
    page.uncheck("#fault-drop-response")
    page.uncheck("#fault-kill")
    expect(now).to_have_text("none")
    page.click("#faults summary")


def test_a_message_behind_sns_is_found_by_its_content_and_shows_it(page, run):
    order = json.dumps({"customer_id": "c-9", "order_id": "behind-sns"})
    envelope = json.dumps({"Type": "Notification", "TopicArn": "arn:aws:sns:r:1:t", "Message": order})
    run.do(f"send sns-1 {envelope}")
    page.fill("#filter", "behind-sns")
    has(page, "queue", "c-9")
    open_chip(page, "sns-1")
    is_text(page, "#body", order)
    page.click("#envelope-box summary")
    is_text(page, "#envelope", envelope)
    page.click("#close")
    page.fill("#filter", "")
    run.do("take", "answer")
    has(page, "done", "c-9")


def test_a_key_has_one_timeline_of_all_its_messages(page, run):
    open_chip(page, "m-1")
    # The open timeline learns of a second message of its key.
    run.do('send m-1-again {"order_id": "o-1"}', "take", "answer m-1-again=duplicate")
    see(page, "#facts", "orders#o-1, of 2 messages")
    page.click("#facts .key")
    timeline_of(page, "orders#o-1")
    see(page, "#facts", ["Effect happened", "1 time", "o-1 · m-1"])
    see(page, "#timeline", ["sent to orders", "sent to orders", "no effect again"])
    run.do('send m-1-third {"order_id": "o-1"}', "take", "answer m-1-third=duplicate")
    see(page, "#facts", "m-1-third")
    page.click("#close")


def test_the_headline_counts_effects_and_stopped_duplicates_and_each_number_shows_what_it_counts(page, run):
    before = numbers(page)
    assert before["repeats"] == 0
    expect(page.locator("[data-number=repeats]")).to_be_hidden()
    # The answer of the first delivery is lost, and the second one is stopped.
    run.do("send h-1 {}", "take", "lose h-1=processed")
    grows(page, before, sent=1, queue=1, effects=1)
    run.do("back", "take", "answer h-1=duplicate")
    has(page, "done", "processed, duplicate stopped h-1")
    grows(page, before, sent=1, done=1, effects=1, duplicates=1)
    # One key has its effect twice, and the page does not hide that.
    run.do('send h-2 {"order_id": "twice"}', 'send h-3 {"order_id": "twice"}', "take", "answer")
    has(page, "done", "effect repeated orders#twice · h-3")
    now = grows(page, before, sent=3, done=3, effects=3, duplicates=1, repeats=1)
    see(page, "#story", "1 effect repeated")
    for name, count in list(now.items())[1:]:
        page.click(f"[data-number={name}]")
        expect(page.locator(".chip")).to_have_count(count)
        page.click(f"[data-number={name}]")
        expect(page.locator("[data-number=sent]")).to_have_attribute("aria-pressed", "true")


def test_dead_letters_are_grouped_by_their_reason_and_a_waiting_message_is_amber(page, run):
    run.do("send w-1 {}", "take", "answer w-1=failed")
    has(page, "queue", "failed: back in 60 min w-1")
    expect(page.locator(".chip.wait[title=w-1]")).to_be_visible()
    run.do("back", "take", "answer w-1=failed", "back", "take")
    first = page.locator("#list-dead li").first
    expect(first).to_have_attribute("data-heading", "1 × the card was <b>declined</b>")
    is_text(page, "[data-number=dead]", "1 dead letter")
    # Without a reason: SQS moved one after its receives, and the function sent one that was never received.
    run.do("letter l-1 {}", "send w-2 {}", "take", "crash", "back", "take", "crash", "back", "take")
    for reason in ("moved by SQS after 2 receives", "sent by the function"):
        expect(page.locator(f"[data-heading='1 × {reason}']")).to_be_visible()
    is_text(page, "[data-number=dead]", "3 dead letters")


def test_each_blocked_message_group_has_a_heading_of_its_own(page, run):
    run.do("behind b-1 customer-1", "behind b-2 customer-1", "behind b-3 customer-2")
    for count, group in ((2, "customer-1"), (1, "customer-2")):
        heading = f"{count} × behind a dead letter of its message group: {group}"
        expect(page.locator(f"[data-heading='{heading}']")).to_be_visible()


def test_no_word_leaves_its_chip_in_a_narrow_column_beside_an_open_timeline(page, run):
    run.do("send n-1 {}", "take", "answer n-1=failed")
    has(page, "queue", "failed: back in 60 min n-1")
    open_chip(page, "n-1")
    for width in (1200, 1000, 920):
        page.set_viewport_size({"width": width, "height": 800})
        wide = page.locator(".chip .tag").evaluate_all(
            "tags => tags.filter((tag) => tag.scrollWidth > tag.clientWidth || tag.getBoundingClientRect().right >"
            " tag.parentElement.getBoundingClientRect().right).map((tag) => tag.innerText)"
        )
        assert wide == [], width
    page.set_viewport_size({"width": 1400, "height": 900})
    page.click("#close")
    run.do("back", "take", "answer")
    has(page, "done", "n-1")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (820, 1180), (1400, 900)])
def test_nothing_overlaps_or_is_cut_off_on_any_screen_and_small_ones_show_one_column_at_a_time(page, width, height):
    page.set_viewport_size({"width": width, "height": height})
    page.click("#faults summary")
    expect(page.locator(".column:visible")).to_have_count(4 if width > 900 else 1)
    wide, tall = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert wide <= width and tall <= height
    parts = page.locator(":is(header, #story, search, #faults, #tabs, #board, #function):visible").all()
    boxes = [part.bounding_box() for part in parts]
    for above, below in zip(boxes, boxes[1:]):
        assert above["y"] + above["height"] <= below["y"] + 1
    page.click("#faults summary")
    open_form(page)
    form = page.locator("#send").bounding_box()
    assert 0 <= form["x"] < form["x"] + form["width"] <= width
    page.click("#send-cancel")
    if width < 900:
        page.click("#tabs button:nth-child(3)")
        open_chip(page, "m-1")
        page.click("#close")
        page.click("#tabs button:nth-child(1)")


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_axe_core_objects_to_nothing(page, scheme):
    def check():
        run = page.evaluate("axe.run()")
        assert [(it["id"], [node["html"] for node in it["nodes"]]) for it in run["violations"]] == []

    # Without animated colours.
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.evaluate((FOLDER / "node_modules" / "axe-core" / "axe.min.js").read_text() + ";0")
    page.click("#faults summary")
    check()
    page.click("#faults summary")
    open_chip(page, "m-1")
    check()
    page.click("#close")
    open_form(page)
    check()
    page.click("#send-cancel")


def test_chips_rest_with_reduced_motion(page, run):
    page.emulate_media(reduced_motion="reduce")
    run.do("send still {}")
    has(page, "queue", "still")
    run.do("take")
    has(page, "flight", "still")
    assert page.evaluate("document.getAnimations().length") == 0
    run.do("answer")
    has(page, "done", "still")
    page.emulate_media(reduced_motion="no-preference")


def test_the_keyboard_reaches_every_control_and_the_focus_is_never_lost(page, run):
    def focused(inside):
        """Waits until the focus is inside of this. Returns the focused element's title."""
        element = page.locator(inside).locator("*:focus")
        expect(element).to_have_count(1)
        return element.get_attribute("title")

    run.do("send k-1 {}", "send k-2 {}")
    has(page, "queue", "k-2")
    page.focus("#filter")
    page.keyboard.press("ArrowDown")
    focused("#list-queue")
    page.focus("#filter")
    for key in ("Tab", "Tab", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    focused("#list-done")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    chosen = focused("#list-queue")
    # A chip keeps the focus when it moves.
    run.do("take")
    has(page, "flight", "k-2")
    assert focused("#list-flight") == chosen
    page.keyboard.press("Enter")
    timeline_of(page, chosen)
    expect(page.locator("#panel-title")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("#duplicate")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    assert focused("#list-flight") == chosen
    run.do("answer")
    has(page, "done", "k-2")


def test_markup_in_an_id_a_body_or_a_log_line_is_text(page, run):
    run.do(f"send <b>bold</b> {HACK}", "take", "answer <b>bold</b>=terminal")
    has(page, "queue", "terminal: back in 60 min <b>bold</b>")
    open_chip(page, "<b>bold</b>")
    is_text(page, "#body", HACK)
    expect(page.locator("img, main b, main script")).to_have_count(0)
    # Even if markup were inserted, the content security policy would not run it.
    with page.expect_console_message(lambda line: "inline event handler" in line.text):
        page.evaluate("document.querySelector('#said').innerHTML = '<img src=data:, onerror=\"window.hacked=1\">'")
    assert page.evaluate("window.hacked") is None
    refused = complaints(page)
    assert all("Content Security Policy" in words for words in refused), refused
    page.click("#close")


def test_thousands_of_messages_are_counted_and_the_document_contains_a_few_of_them(page, run):
    before = numbers(page)["queue"]
    run.do("many 5000")
    is_text(page, "#count-queue", f"{5000 + before:,}")
    is_text(page, "#more-queue", f"+ {5000 + before - 60:,} more")
    page.click("#more-queue")
    expect(page.locator("#list-queue .chip")).to_have_count(120)
    run.do(*["take", "answer"] * 30)
    is_text(page, "#count-queue", f"{4700 + before:,}")
    open_chip(page, "many-301")
    page.click("#close")
    assert page.locator("*").count() < 2500


def test_the_report_shows_the_same_as_the_page_and_sends_no_requests(page, run):
    file = OUT / "page" / "run.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    run.do(f"report {file}")
    report = page.context.browser.new_page()
    asked = []
    report.on("request", lambda request: asked.append(request.url))
    report.goto(file.as_uri())
    see(report, "#connection", "a report, as of")
    shown = []
    for one in (report, page):
        chips = [one.locator(f"#list-{column} .chip").evaluate_all("them => them.map((it) => it.title)")[:60] for column in COLUMNS]
        one.fill("#filter", "m-1")
        has(one, "done", "processed orders#o-1 · m-1")
        open_chip(one, "m-1")
        shown.append((one.locator("output").all_inner_texts(), chips, one.inner_text("#timeline")))
    assert shown[0] == shown[1]
    expect(report.locator("#open-send, #duplicate, #redrive, #send, #save, #faults")).to_have_count(0)
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    assert complaints(report) == []


def test_the_page_shows_when_the_run_is_over(page, run):
    run.child.kill()
    run.child.wait()
    see(page, "#connection", "no connection")
    expect(page.locator(".chip")).not_to_have_count(0)


if __name__ == "__main__":
    run_tests(__file__)
