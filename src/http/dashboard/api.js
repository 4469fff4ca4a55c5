// Questions to the gateway.

const API = "/api/v1/gateway";
const PATIENCE_MS = 10_000;

/** The gateway did not answer at all. */
class Unreachable extends Error {}

/** The gateway answered that it cannot or will not. */
class Refused extends Error {}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(`${API}${path}`, {
      ...options,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
  } catch (error) {
    const isLate = error.name === "TimeoutError";
    throw new Unreachable(isLate ? `The gateway did not answer within ${PATIENCE_MS / 1000} seconds.` : "The gateway does not answer.");
  }
  const date = Date.parse(response.headers.get("date") ?? "");
  if (!Number.isNaN(date)) noteClock(date);
  if (!response.ok) throw await refusal(response);
  return response;
}

/** The header has whole seconds, so a smaller difference says nothing. */
function noteClock(date) {
  const difference = date - Date.now();
  clockSkew = Math.abs(difference) < 2_000 ? 0 : difference;
}

async function refusal(response) {
  const body = await response.json().catch(() => ({}));
  const fields = (body.fields ?? []).map((one) => `${one.field} ${one.message}`).join("; ");
  const text = fields || body.message || `It answered ${response.status}.`;
  return new Refused(text);
}

const get = async (path) => (await ask(path)).json();
const getText = async (path) => (await ask(path)).text();

async function post(path, body) {
  const headers = { "content-type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}
