// One event: what arrived, to whom it went, what became of each hand-out.

const PAYLOAD_SHOWN_MAX = 200_000;

/** The event that is shown. */
let storyOf = null;

async function openStory(id) {
  storyOf = id;
  const section = $("#story");
  section.hidden = false;
  say($("#story-title"), `Event ${id}`);
  $("#story-body").replaceChildren();
  await refreshStory();
  if (storyOf !== id) return;
  $("#story-title").focus();
  section.scrollIntoView({ block: "start" });
}

function closeStory() {
  storyOf = null;
  $("#story").hidden = true;
}

async function refreshStory() {
  const id = storyOf;
  if (id === null) return;
  const problem = $(".problem", $("#story"));
  try {
    const story = await get(`/events/${id}`);
    if (storyOf !== id) return;
    say(problem, "");
    showStory(story);
  } catch (error) {
    if (storyOf !== id) return;
    const isGone = error instanceof Refused;
    say(problem, isGone ? `There is no event ${id}: it never was, or retention has removed it.` : error.message);
  }
}

function showStory({ event, deliveries }) {
  say($("#story-title"), `Event ${event.id}: ${event.kind}, ${about(event)}`);
  const parts = [{ part: "facts", event }, { part: "deliveries", deliveries, state: event.state }, { part: "payload", id: event.id, bytes: event.payloadBytes }];
  const build = { facts: storyFacts, deliveries: storyDeliveries, payload: storyPayload };
  update($("#story-body"), parts, (one) => `${event.id} ${one.part}`, (one) => build[one.part](one));
}

const fact = (name, value, kind = "") =>
  el("div", { class: kind || undefined }, el("dt", {}, name), el("dd", {}, ...(Array.isArray(value) ? value : [value])));

function storyFacts({ event }) {
  const headers = Object.entries(event.headers).map(([name, value]) => el("div", { class: "mono" }, `${name}: ${value}`));
  return el(
    "dl",
    { class: "facts" },
    fact("Arrived", moment(event.receivedAt)),
    fact("Came", `${event.provider}, by ${event.source}`),
    fact("By", shown(event.actor, "nobody is named")),
    fact("State", word(EVENT_KINDS[event.state], event.state)),
    fact("Work item", shown(event.workItem, "none")),
    fact("Named by", shown(event.resolvedBy, "nothing")),
    fact("Subject", el("a", { href: `#subject-${event.subject}` }, event.subject)),
    fact("Delivery id", el("span", { class: "mono" }, event.deliveryId)),
    fact("Recognised again by", event.dedupKeys.length ? event.dedupKeys.map((key) => el("div", { class: "mono" }, key)) : shown("", "nothing"), "wide"),
    fact("Headers", headers.length ? headers : shown("", "none stored"), "wide"),
  );
}

function storyDeliveries({ deliveries, state }) {
  if (deliveries.length > 0) return el("div", { class: "deliveries" }, ...deliveries.map(delivery));
  const texts = {
    held: "It is on no queue: nobody claims its subject or works for its actor. It waits for the first who does.",
    grace: "Nothing names its work item yet. It waits a moment for a binding or a room, and is dropped without one.",
    expired: "Nobody consumed it in time, and retention gave it up.",
    routed: "Its deliveries are gone: retention removes them some days after they are settled.",
  };
  return el("p", { class: "note" }, texts[state] ?? "It has no delivery.");
}

function delivery(one) {
  const outcome = one.outcome ? `, ${one.outcome}` : "";
  return el(
    "article",
    { class: "delivery" },
    el("h3", {}, `Delivery ${one.seq} to ${one.instance}: `, word(DELIVERY_KINDS[one.state], `${one.state}${outcome}`)),
    el("dl", { class: "facts" }, ...deliveryFacts(one)),
    one.handOuts.length ? el("ol", { "aria-label": `Hand-outs of delivery ${one.seq}` }, ...one.handOuts.map(handOut)) : undefined,
  );
}

function deliveryFacts(one) {
  const facts = [
    fact("Queued", moment(one.routedAt)),
    fact("Why here", one.why),
    fact("Attempt", NUMBER.format(one.attempt)),
    fact("Strikes", count(one.strikes, "warn")),
  ];
  if (one.dueAt) facts.push(fact("Next try", moment(one.dueAt, "until")));
  if (one.suspect) facts.push(fact("Suspect", "goes out alone"));
  if (one.losses > 0) facts.push(fact("Responses lost running", NUMBER.format(one.losses)));
  if (one.redriveOf) facts.push(fact("Replaces", `delivery ${one.redriveOf}`));
  if (one.endedAt) facts.push(fact("Ended", moment(one.endedAt)));
  if (one.detail) facts.push(fact("The instance said", one.detail, "wide"));
  return facts;
}

function handOut(one) {
  const ended = one.ended ? [one.ended, " ", moment(one.endedAt ?? one.handedAt)] : ["in hand"];
  return el("li", {}, `Attempt ${one.attempt}, run `, el("span", { class: "mono" }, one.run), ", handed out ", moment(one.handedAt), ": ", ...ended);
}

function storyPayload({ id, bytes }) {
  if (bytes === 0) return el("p", { class: "payload muted" }, "The payload is gone.");
  const place = el("div", { class: "payload" });
  const button = el("button", { type: "button" }, `Show the payload (${size(bytes)})`);
  button.addEventListener("click", () => showPayload(id, place, button));
  place.append(button);
  return place;
}

async function showPayload(id, place, button) {
  button.disabled = true;
  try {
    const text = await getText(`/events/${id}/payload`);
    const cut = text.length > PAYLOAD_SHOWN_MAX;
    const body = cut ? text.slice(0, PAYLOAD_SHOWN_MAX) : indented(text);
    place.replaceChildren(el("pre", { tabindex: "0", role: "region", "aria-label": `Payload of event ${id}` }, body));
    if (cut) place.append(el("p", { class: "muted" }, `Cut: the whole of it is at ${API}/events/${id}/payload.`));
    $("pre", place).focus();
  } catch (error) {
    button.disabled = false;
    place.append(el("p", { class: "problem", role: "alert" }, error.message));
  }
}

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
