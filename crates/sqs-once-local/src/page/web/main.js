// Assembles the page.

const data = JSON.parse($("data").textContent);
const source = data.live ? liveSource(data.live) : reportSource(data.report);

/** The offset of the story's clock from this machine's. A report's clock stands still. */
let ahead = 0;
let stopped = null;
const now = () => stopped ?? Date.now() + ahead;

const board = new Board(open, now);
const timeline = new Timeline(open, openKey, (key) => ofKey(key).length, now);
const faults = new Faults(setFaults);
let lastChange = Promise.resolve();
/** The changes of the faults that have no answer yet. Until then, the page shows what the user chose. */
let unanswered = 0;
let drawing = false;
let refreshing = false;
let stale = false;
/** Milliseconds after which a finished message is no longer refreshed. */
const LATE = 5000;

function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    board.draw();
    if (source.canAct) $("redrive").disabled = $("count-dead").value === "0";
  });
}

function take(overview) {
  if (source.live) ahead = overview.now - Date.now();
  else stopped = overview.now;
  board.update(overview);
  $("title").textContent = overview.queue;
  $("send-deduplication-box")?.toggleAttribute("hidden", !overview.queue.endsWith(".fifo"));
  if (overview.faults && unanswered === 0) faults.show(overview.faults);
  document.title = `${overview.queue} · sqs-once`;
  $("environments").textContent = `${plural(overview.environments, "environment runs", "environments run")}`;
  if (overview.function) entriesInto($("function-lines"), overview.function, open);
  const { done, redriven, purged, expired, unfinished } = overview.forgotten;
  const finished = done + redriven + purged + expired;
  const words = [];
  if (finished > 0) words.push(`The oldest ${plural(finished, "finished message is", "finished messages are")} not kept.`);
  if (unfinished > 0) words.push(`${plural(unfinished, "message of the queue is", "messages of the queue are")} not kept.`);
  $("forgotten").textContent = words.join(" ");
  if (!source.live) $("connection").textContent = `a report, as of ${new Date(overview.now).toLocaleString()}`;
  if (source.live && isNews(overview)) refresh();
  draw();
}

/** Whether the open timeline may have changed. */
function isNews(overview) {
  if (timeline.key !== null) return overview.messages.some((message) => message.key === timeline.key);
  if (timeline.number === null) return false;
  const message = board.messages.get(timeline.number);
  // Its invocation may have logged lines that do not name it, and log lines can arrive late.
  if (message && (message.state === "in_flight" || now() - message.at < LATE)) return true;
  // Another message with the same id or key also changes it.
  const key = message?.key ?? null;
  return overview.messages.some((other) => other.id === timeline.id || (key !== null && other.key === key));
}

/** Refreshes the open message, one request at a time. Repeats the request if the message changed meanwhile. */
async function refresh() {
  stale = true;
  if (refreshing) return;
  refreshing = true;
  while (stale && (timeline.number !== null || timeline.key !== null)) {
    stale = false;
    const { number, key } = timeline;
    try {
      if (key !== null) {
        const details = await detailsOf(key);
        if (timeline.key === key) timeline.showKey(key, details);
      } else {
        const detail = await source.detail(number);
        if (timeline.number === number) timeline.show(detail);
      }
    } catch (error) {
      say(error.message);
    }
    await pause(80);
  }
  refreshing = false;
}

async function open(number) {
  try {
    const detail = await source.detail(number);
    if (!detail) return say("that message was forgotten");
    timeline.show(detail);
    board.chosen = number;
    draw();
    // What changed while it was loading.
    if (source.live) refresh();
    $("panel-title").focus({ preventScroll: true });
  } catch (error) {
    say(error.message);
  }
}

/** The most messages on the timeline of a key. */
const OF_KEY = 50;

const ofKey = (key) => [...board.messages.values()].filter((message) => message.key === key);

/** The latest messages with this key. */
async function detailsOf(key) {
  const details = await Promise.all(ofKey(key).slice(-OF_KEY).map((message) => source.detail(message.number)));
  return details.filter(Boolean);
}

/** Shows every message of a key on one timeline. */
async function openKey(key) {
  try {
    const details = await detailsOf(key);
    board.chosen = null;
    timeline.showKey(key, details);
    draw();
    $("panel-title").focus({ preventScroll: true });
  } catch (error) {
    say(error.message);
  }
}

function close() {
  const number = timeline.number;
  if (number === null && timeline.key === null) return;
  timeline.close();
  board.chosen = null;
  board.draw();
  board.focus(number);
}

function connected(is, error) {
  $("connection").textContent = is ? "live" : `no connection: ${error.message}`;
  $("connection").classList.toggle("lost", !is);
}

function say(words) {
  $("said").textContent = words;
}

/** Performs a button's action and shows the result. Returns whether it succeeded. */
async function act(what, request, said) {
  try {
    say(said(await source.act(what, request)));
    return true;
  } catch (error) {
    say(`not done: ${error.message}`);
    return false;
  }
}

/** The messages of the sample events, in the order of their options. */
let samples = [];

async function openSend() {
  try {
    samples = await source.samples();
  } catch (error) {
    say(error.message);
  }
  const words = samples.length > 0 ? "choose one" : "the folder events has none";
  $("send-sample").replaceChildren(new Option(words, ""), ...samples.map(({ name }, at) => new Option(name, at)));
  $("send-sample").disabled = samples.length === 0;
  $("send").showModal();
}

function fill({ body, attributes, group_id, deduplication_id }) {
  $("send-body").value = body;
  $("send-attributes").value = Object.keys(attributes).length > 0 ? JSON.stringify(attributes, null, 2) : "";
  $("send-group").value = group_id ?? "";
  $("send-deduplication").value = deduplication_id ?? "";
}

/** The request of the form, as SQS's `SendMessage`. */
function message() {
  const text = (id) => $(id).value || undefined;
  const attributes = text("send-attributes");
  return {
    MessageBody: $("send-body").value,
    MessageAttributes: attributes && JSON.parse(attributes),
    MessageGroupId: text("send-group"),
    MessageDeduplicationId: $("send-deduplication-box").hidden ? undefined : text("send-deduplication"),
  };
}

async function send() {
  let request;
  try {
    request = message();
  } catch (error) {
    $("send-refused").textContent = `the message attributes are not JSON: ${error.message}`;
    return;
  }
  const said = ({ count, message_id: id }) =>
    count > 0 ? `sent ${id}` : `dropped: ${id} has the same deduplication id and is less than five minutes old`;
  const sent = await act("send", request, said);
  $("send-refused").textContent = sent ? "" : $("said").textContent;
  if (sent) {
    fill({ body: "", attributes: {} });
    $("send").close();
  }
}

/** Sends each change of the faults after the answer to the one before. Then shows the last answer. */
function setFaults(shares) {
  unanswered += 1;
  lastChange = lastChange.then(async () => {
    try {
      faults.shown = await source.act("faults", shares);
    } catch (error) {
      say(`not done: ${error.message}`);
    }
    unanswered -= 1;
    if (unanswered === 0) faults.show(faults.shown);
  });
}

if (source.canAct) {
  $("open-send").addEventListener("click", openSend);
  $("send-sample").addEventListener("change", () => fill(samples[$("send-sample").value] ?? { body: "", attributes: {} }));
  $("send-go").addEventListener("click", send);
  $("send-cancel").addEventListener("click", () => $("send").close());
  $("send").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
  });
  $("duplicate").addEventListener("click", () => {
    act("duplicate", { number: timeline.number }, (done) => `${done.message_id} was sent once more`);
  });
  $("redrive").addEventListener("click", () => {
    act("redrive", {}, (done) => `${plural(done.count, "message was", "messages were")} redriven`);
  });
} else {
  for (const button of document.querySelectorAll("button.acts")) button.remove();
  $("send").remove();
}
if (!source.live) {
  $("save").remove();
  $("faults").remove();
}

$("filter").addEventListener("input", () => {
  board.filter = $("filter").value.toLowerCase();
  draw();
});
$("filter").addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown") return;
  event.preventDefault();
  board.enter();
});
$("close").addEventListener("click", close);
document.addEventListener("keydown", (event) => {
  if ($("send")?.open) return;
  if (event.key === "Escape") close();
  const writes = event.target.matches?.("input, textarea, select");
  if (event.key === "/" && !writes) {
    event.preventDefault();
    $("filter").focus();
  }
});

source.follow(take, connected);
// Update the countdowns of waiting messages.
if (source.live) setInterval(draw, 1000);
