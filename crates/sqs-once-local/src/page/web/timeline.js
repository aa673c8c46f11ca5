// The timeline: what happened to one message, in order.

/** The most entries to show. Longer timelines show the last ones. */
const ENTRIES = 1000;

class Timeline {
  /**
   * Calls `open(number)` if the user chooses another message, and `openKey(key)` for a key. `countOf(key)` returns how
   * many messages have a key, and `now()` the story's time.
   */
  constructor(open, openKey, countOf, now) {
    this.open = open;
    this.openKey = openKey;
    this.countOf = countOf;
    this.now = now;
    this.number = null;
    this.key = null;
    this.id = null;
    $("other").addEventListener("change", () => {
      $("timeline").classList.toggle("without-others", !$("other").checked);
    });
  }

  /** Shows a message. Keeps existing elements, so that the user does not lose the scroll position. */
  show(detail) {
    this.turnTo(detail.id, { number: detail.number, id: detail.id });
    $("body").textContent = detail.opened ?? detail.body;
    $("envelope-box").hidden = detail.opened === null;
    $("envelope").textContent = detail.body;
    this.facts(detail);
    const more = detail.entries.length - ENTRIES + detail.entries_forgotten;
    const hidden = Math.max(more, detail.entries_forgotten);
    $("entries-forgotten").textContent =
      hidden > 0 ? `${plural(hidden, "entry", "entries")} of this timeline are not kept or not shown.` : "";
    this.showEntries(detail.entries);
  }

  /** Shows all messages of a key together, ordered by time. */
  showKey(key, details) {
    this.turnTo(key, { key });
    const entries = details.flatMap((detail) => {
      const of = { number: detail.number, message_id: shortId(detail.id) };
      return detail.entries.map((entry) => ({ ...entry, of }));
    });
    entries.sort((a, b) => a.at - b.at);
    const effects = details.reduce((sum, detail) => sum + detail.effects, 0);
    const happened = element("span", effects > 1 ? "bad" : "", plural(effects, "time", "times"));
    const facts = [["Effect happened", happened], ["Messages", number(details.length)]];
    for (const detail of details) {
      const words = `${titleOf(detail)} · ${shortId(detail.id)}`;
      const where = element("span", "", link(detail, this.open, words), `: ${stateOf(detail, this.now())}`);
      facts.push([detail.outcome ? outcomeOf(detail.outcome)[0] : "no outcome yet", where]);
    }
    $("facts").key = null;
    factsInto($("facts"), facts);
    $("entries-forgotten").textContent = "";
    this.showEntries(entries);
  }

  /** Begins a timeline, unless it is the open one: of a message by its number, or of a key. */
  turnTo(title, { number = null, id = null, key = null }) {
    if (this.number !== number || this.key !== key) {
      $("timeline").replaceChildren();
      $("panel").scrollTop = 0;
    }
    Object.assign(this, { number, id, key });
    $("panel").classList.toggle("of-key", key !== null);
    $("panel-title").textContent = title;
  }

  showEntries(entries) {
    $("other-box").hidden = !entries.some((entry) => entry.what === "logged" && !entry.own);
    entriesInto($("timeline"), entries.slice(-ENTRIES), this.open);
    $("panel").hidden = false;
  }

  close() {
    Object.assign(this, { number: null, id: null, key: null });
    $("panel").hidden = true;
  }

  facts(detail) {
    const facts = [["Where", `${detail.queue}: ${stateOf(detail, this.now())}`]];
    if (detail.outcome) facts.push(["Last outcome", outcomeOf(detail.outcome)[0]]);
    const ofKey = detail.key ? this.countOf(detail.key) : 0;
    if (detail.key) {
      const of = ofKey > 1 ? `, of ${number(ofKey)} messages` : "";
      facts.push(["Business key", element("span", "", keyLink(detail.key, this.openKey), of)]);
    }
    if (detail.reason) facts.push(["Last reason", detail.reason]);
    facts.push(["Received", plural(detail.receives, "time", "times")]);
    if (detail.group_id) facts.push(["Message group", detail.group_id]);
    for (const [name, value] of Object.entries(detail.attributes)) {
      facts.push([name, value?.StringValue ?? value?.BinaryValue ?? JSON.stringify(value)]);
    }
    if (detail.from) facts.push(["Was before", link(detail.from, this.open)]);
    if (detail.to) facts.push(["Goes on as", link(detail.to, this.open)]);
    for (const copy of detail.copies) facts.push(["Same id", link(copy, this.open, `message ${copy.number}`)]);
    const key = JSON.stringify([facts, detail.key, ofKey, detail.from, detail.to, detail.copies]);
    if ($("facts").key === key) return;
    $("facts").key = key;
    factsInto($("facts"), facts);
  }
}

function factsInto(list, facts) {
  list.replaceChildren(...facts.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]));
}

/** A button that shows every message of a key. */
function keyLink(key, openKey) {
  const button = linkButton("link key", key, () => openKey(key));
  button.title = "every message with this key";
  return button;
}

const link = (to, open, words = to.message_id) => linkButton("link", words, () => open(to.number));

function linkButton(className, words, follow) {
  const button = element("button", className, words);
  button.type = "button";
  button.addEventListener("click", follow);
  return button;
}

/** Shows these entries in a list and adds only the missing ones. */
function entriesInto(list, entries, open) {
  entries.forEach((entry, index) => {
    const before = entries[index - 1]?.at;
    const key = JSON.stringify([entry, before]);
    const present = list.children[index];
    if (present?.key === key) return;
    const item = entryItem(entry, before, open);
    item.key = key;
    if (present) present.replaceWith(item);
    else list.append(item);
  });
  while (list.children.length > entries.length) list.lastElementChild.remove();
}

function entryItem(entry, before, open) {
  const time = element("time", "", clock(entry.at));
  time.dateTime = new Date(entry.at).toISOString();
  if (before !== undefined) time.append(element("span", "after", ` +${span(Math.max(entry.at - before, 0))}`));
  const [className, ...content] = entryContent(entry, open);
  if (entry.of) content.unshift(link(entry.of, open), " ");
  return element("li", `entry ${className}`, time, element("div", "", ...content));
}

/** An entry's class and text. */
function entryContent(entry, open) {
  const until = (at) => clock(at);
  const ofRequest = (request) => (request ? ` · request ${request}` : "");
  switch (entry.what) {
    case "sent":
      return ["head", `sent to ${entry.queue}`, entry.visible_at > entry.at ? `, to be received from ${until(entry.visible_at)}` : ""];
    case "seen_first":
      return ["", "first seen here: what came before is not known"];
    case "redriven_from":
      return ["head", `redriven from ${entry.queue}, where it was `, link(entry.link, open)];
    case "received": {
      const by = entry.environment === undefined ? "" : ` by environment ${entry.environment}`;
      const words = `receive ${entry.receive_count}${by}${ofRequest(entry.request_id)}`;
      return ["head", words, element("div", "other", `invisible until ${until(entry.visible_at)}`)];
    }
    case "invoked":
      return ["head", `given to environment ${entry.environment} once more${ofRequest(entry.request_id)}`];
    case "record":
      return ["", ...recordContent(entry.record)];
    case "logged":
      return [entry.own ? "" : "other", element("div", "line", logLine(entry.line))];
    case "answered": {
      const what = entry.returned ? "returned to the queue" : "acknowledged";
      const words = element("span", `what ${entry.returned ? "wait" : ""}`, `environment ${entry.environment} answered: ${what}`);
      return ["", entry.reason === null ? words : element("span", "what bad", `the whole batch was returned: ${entry.reason}`)];
    }
    case "visibility_changed":
      if (entry.visible_at <= entry.at) return ["", "made visible: it can be received at once"];
      return ["", `made invisible until ${until(entry.visible_at)}`];
    case "deleted":
      return ["", element("span", "what good", `deleted from ${entry.queue}`)];
    case "dead_lettered":
      return ["head", element("span", "what bad", `received too often: moved to ${entry.to}`)];
    case "dead_letter_sent":
      return ["", element("span", "what bad", `sent to ${entry.to} by the function, as `), link(entry.link, open)];
    case "redriven":
      return ["head", `redriven to ${entry.to}, as `, link(entry.link, open)];
    case "purged":
      return ["", `${entry.queue} was purged`];
    case "expired":
      return ["head", element("span", "what bad", `expired: longer in ${entry.queue} than that keeps a message`)];
    case "fault":
      return ["", element("span", "what wait", `fault on request: ${entry.text}`)];
    case "environment_started":
      return ["", `environment ${entry.environment} started`];
    case "environment_ended":
      return ["", element("span", "what bad", `environment ${entry.environment} ended: ${entry.reason}`)];
    default:
      return ["", entry.what];
  }
}

function recordContent(record) {
  const [word, tone] = outcomeOf(record.outcome);
  const took = typeof record.duration_ms === "number" ? ` in ${span(record.duration_ms)}` : "";
  const content = [element("span", `what ${tone}`, `${word}${took}`)];
  const steps = stepsOf(record);
  if (steps) content.push(element("ol", "steps", ...steps.map((step) => element("li", "", step))));
  if (record.route) content.push(element("div", "line", `route ${record.route}`));
  if (record.key) content.push(element("div", "line", `key ${record.key}`));
  if (record.reason) content.push(element("div", "reason", record.reason));
  return content;
}
